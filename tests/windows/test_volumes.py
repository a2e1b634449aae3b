"""What no longer changes in the history of windows is written once, and restarts do not show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given

from tests.engine import test_volumes
from tests.engine.cases import runs
from tests.engine.material import share
from tests.engine.protocol import Case, Run
from tests.windows.test_tactic import every_case


@pytest.fixture
def _small() -> Iterator[None]:
    """Sizes at which even short streams have volumes."""
    with pytest.MonkeyPatch.context() as patch:
        test_volumes.small(patch)
        yield


@pytest.mark.usefixtures("_small")
@every_case
@given(runs())
@share(0.06)
def test_restarts_from_volumes_do_not_show(case: Case, run: Run) -> None:
    test_volumes.check_restarts(case, run)


@every_case
def test_what_a_checkpoint_writes_follows_what_is_new(case: Case) -> None:
    test_volumes.check_sizes(case)
