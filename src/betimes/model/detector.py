"""Detectors: user code that turns ordered events into new events. Three kinds, one contract.

* per event: an object with `on_event(event)`;
* per batch: an object with `on_batch(batch)`, called with ordered slices of columns;
* stateless: a function of one event.

Each returns an event, several events (it may be a generator), or None. `on_batch` may also return
`Derived`: events as columns, each with the row that completed it. A plain event from `on_batch`
counts as made at the end of its slice. Where slices are cut must not matter. If the class lists the
payload columns that it reads, as in `columns = ("x", "y")`, only those are kept for it.

What a detector returns must depend only on its state and on the events it is given: no clock, no
files, no randomness. Its state is the object's attributes, or whatever its own `snapshot()` returns
and `restore(state)` takes.

A per-event detector that waits for something *not* to happen has an attribute `deadline` (a time,
or None) and a method `on_time(ts)`. `on_time` is called when stream time reaches the deadline,
before any event of that time. It returns events like `on_event`, and must set a later deadline or
None.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol

from betimes.model.errors import BetimesError, OptionError
from betimes.model.identity import attributes, fact

Kind = Literal["event", "batch", "function"]


class DetectorError(BetimesError, RuntimeError):
    """A detector failed: which one, at which event, in which state."""


class Maker:
    """Makes detectors of one kind: from a class, a factory, a template instance or a function."""

    def __init__(self, detector: Any) -> None:
        self.kind: Kind
        self.make: Callable[[], Any]
        sample = detector
        if inspect.isclass(detector):
            self.kind, self.make = _kind(detector), detector
        elif hasattr(detector, "on_event") or hasattr(detector, "on_batch"):
            self.kind, self.make = _kind(detector), functools.partial(copy.deepcopy, detector)
        elif _is_function(detector) and _parameters(detector) == 1:
            self.kind, self.make = "function", functools.partial(_itself, detector)
        elif callable(detector) and _parameters(detector) == 0:
            sample = detector()
            self.kind, self.make = _kind(sample), detector
        else:
            raise OptionError(
                "expected a detector: a class or an object with on_event(event) or on_batch(batch),"
                f" a function of one event, or a factory with no parameters, got {detector!r}"
            )
        self.name = getattr(detector, "__name__", None) or type(detector).__name__
        self.source = detector
        self.timed = self.kind == "event" and _is_timed(self.make)
        self.columns = _columns(sample) if self.kind == "batch" else None
        """The payload columns that a per-batch detector reads; None if it does not list them."""

    def facts(self) -> dict[str, str]:
        """What was added, and with which options, in words."""
        source = self.source
        if inspect.isclass(source):
            return {"class": source.__qualname__}
        if isinstance(source, functools.partial):
            arguments = {str(n): value for n, value in enumerate(source.args)} | source.keywords
            return {"made by": _qualname(source.func), **_options(arguments)}
        if self.kind == "function":
            return {"function": fact(source)}
        # A template's attributes are its options; so are those of what a factory makes.
        sample = self.make()
        return {"class": type(sample).__qualname__, **_options(attributes(sample))}


class Described(Protocol):
    """Something that makes detectors and says itself what it is."""

    @property
    def name(self) -> str:
        """What it is called if nobody names it."""

    def facts(self) -> dict[str, str]:
        """What it is, and with which options, in words."""


class DescribedMaker(Maker):
    """Makes the detectors of an operator; the facts are those of the operator."""

    def __init__(self, source: Described, make: Callable[[], Any]) -> None:
        super().__init__(make)
        self.name = source.name
        self.source = source

    def facts(self) -> dict[str, str]:
        facts: dict[str, str] = self.source.facts()
        return facts


def _itself(detector: Any) -> Any:
    """A function has no state: there need not be several. (A lambda could not be pickled.)"""
    return detector


def _qualname(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _options(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: fact(value) for name, value in values.items()}


def _columns(detector: Any) -> tuple[str, ...] | None:
    columns = getattr(detector, "columns", None)
    if columns is None:
        return None
    if isinstance(columns, tuple | list) and all(isinstance(name, str) for name in columns):
        return tuple(columns)
    raise OptionError(
        "expected columns of a per-batch detector to be names of payload columns, as in "
        f'columns = ("x", "y"), got columns={columns!r}'
    )


def _is_timed(make: Callable[[], Any]) -> bool:
    detector = make
    if not hasattr(detector, "on_time"):
        try:
            detector = make()
        except Exception:  # noqa: BLE001 - the error is reported when the first one is made
            return False
    return callable(getattr(detector, "on_time", None))


def _is_function(detector: Any) -> bool:
    """Whether it is a function, which has no state; an object with `__call__` may have some."""
    if isinstance(detector, functools.partial):
        return _is_function(detector.func)
    return inspect.isroutine(detector)


def _kind(detector: Any) -> Kind:
    if callable(getattr(detector, "on_batch", None)):
        return "batch"
    if callable(getattr(detector, "on_event", None)):
        return "event"
    raise OptionError(
        f"expected {detector!r} to have a method on_event(event) or on_batch(batch), got neither"
    )


def _parameters(function: Callable[..., Any]) -> int:
    """How many positional arguments a call needs."""
    parameters: Iterable[inspect.Parameter] = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)
