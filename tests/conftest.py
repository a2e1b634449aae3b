"""Settings of all tests.

`make test` tries the same examples every time: whether a commit passes must not depend on luck.
`make search` looks for new counter-examples, and longer. Most properties find what they find within
a few dozen examples; those of the contracts have more, see `share` in `tests.engine.material`.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.spark.processes import JAVA_OPTIONS

# Spark's workers run detectors of the tests, whatever folder the session was started in.
_ROOT = str(Path(__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))

# Of every JVM except executors of clusters, which have their own setting.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ[_name] = " ".join(filter(None, (os.environ.get(_name), JAVA_OPTIONS)))

SLOW = (
    "cli/test_run_kafka",
    "spark/test_faults",
    "cli/test_commands",
    "spark/test_cluster",
    "spark",
)
"""Files and folders that take long, and so begin first: none is left over for one process."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first; all others stay in order."""
    starts = [f"tests/{name}" for name in SLOW]

    def place(item: pytest.Item) -> int:
        return next((n for n, s in enumerate(starts) if item.nodeid.startswith(s)), len(starts))

    items.sort(key=place)


settings.register_profile(
    "ci", deadline=None, max_examples=60, print_blob=True, derandomize=True, database=None
)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=2000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
