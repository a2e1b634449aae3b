"""Settings of all tests.

`make test` tries the same examples every time: whether a commit passes must not depend on luck.
`make search` looks for new counter-examples, and longer.
"""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

# Spark's workers run detectors of the tests, whatever folder the session was started in.
_ROOT = str(Path(__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))

settings.register_profile(
    "ci", deadline=None, max_examples=250, print_blob=True, derandomize=True, database=None
)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=2000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
