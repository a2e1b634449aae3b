"""Calibration: what each detector should start with, to wait long enough from the first event on.

`configuration` is the value and `files` its file format; `iterative` finds it in a recorded stream
with `probes` that measure, and `parts` splits the delays; `walk` derives it from an older one.
"""
