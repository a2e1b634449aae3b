"""Settings of all tests. `HYPOTHESIS_PROFILE=thorough` looks longer for counter-examples."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("ci", deadline=None, max_examples=250, print_blob=True)
settings.register_profile(
    "thorough",
    settings.get_profile("ci"),
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
