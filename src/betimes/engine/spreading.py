"""Orders whose stages live elsewhere: what `Engine(workers=...)` stands for.

Nothing in the engine knows how stages are spread. Whoever can do that registers for the type of
`workers`, as detectors are described by type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from betimes.engine.changes import ChangeWriter
from betimes.engine.hierarchy import Hierarchy
from betimes.engine.options import EngineOptions
from betimes.engine.shared import SharedOrder
from betimes.model.errors import OptionError


def refuse(**here: Any) -> None:
    """Refuse arguments that need the stages to be here."""
    for name, value in here.items():
        if value:
            raise OptionError(
                f"expected no {name}= with workers=, because detectors live elsewhere; leave one "
                "of them out"
            )


@singledispatch
def elsewhere(
    workers: Any,
    hierarchy: Hierarchy,  # noqa: ARG001 - for those who register
    options: EngineOptions,  # noqa: ARG001
    *,
    changes: ChangeWriter,  # noqa: ARG001
    whole: Callable[[], SharedOrder],  # noqa: ARG001
    cores: int | None,  # noqa: ARG001
) -> Any:
    """An order with the interface of `SharedOrder`; `whole` makes one with all stages."""
    raise OptionError(f"expected workers to say where detectors live, got workers={workers!r}")
