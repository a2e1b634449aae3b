"""Calibration: what each detector of a hierarchy should start with, so that it does not stumble.

`configuration` says what that is and `files` how it is written down; `iterative` finds it in a
recorded stream, with the help of `probes`, and `parts` takes it apart; `walk` works it out from an
older one.
"""
