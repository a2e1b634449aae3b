"""The detectors of a match, lowest level first: `raw`, then `ball`, `play`, `running`, `places`."""
