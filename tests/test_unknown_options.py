"""An unknown option is an error that names the nearest valid one, wherever options are taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import betimes as bt
import betimes.calibration
import betimes.spark
import betimes.testing
from betimes.model.hints import has_options
from betimes.patterns.builder import Builder

MODULES = {"": bt, "testing.": betimes.testing, "calibration.": betimes.calibration,
           "spark.": betimes.spark}  # fmt: skip

HOT = {"EventBatch", "EventBatch.concat", "OrderingUnit.feed", "OrderingUnit.order"}
"""Every stage does this all the time, and hardly anybody else needs these options."""

Call = Callable[..., Any]


def named() -> dict[str, Any]:
    """Everything that users can call, and what they get from it to go on with."""
    found = {
        f"{prefix}{name}": getattr(module, name)
        for prefix, module in MODULES.items()
        for name in module.__all__
    }
    return {**found, "Builder": Builder}


def public() -> Iterator[tuple[str, Call, Call]]:
    """Every public function and method: its name, how to call it, and what it is."""
    for name, found in named().items():
        if not inspect.isclass(found):
            yield name, found, found
        elif not issubclass(found, Exception | msgspec.Struct):  # records have no options
            for own, member in inspect.getmembers_static(found):
                function = getattr(member, "__func__", member)
                if not inspect.isfunction(function) or "betimes" not in function.__module__:
                    continue
                if own == "__init__":
                    yield name, found, function
                elif not own.startswith("_"):
                    yield f"{name}.{own}", getattr(found, own), function


def passes_on(function: Call) -> bool:
    """Whether a function takes any keyword."""
    return bool(inspect.unwrap(function).__code__.co_flags & inspect.CO_VARKEYWORDS)


WITH_OPTIONS = {
    name: call for name, call, function in public() if has_options(function)
    and not passes_on(function)
}  # fmt: skip
ANY_KEYWORD = {name for name, _, function in public() if passes_on(function)}


def test_the_functions_are_found() -> None:
    expected = {
        "Zone",
        "Engine.finish",
        "Builder.times",
        "EventBatch.from_arrow",
        "testing.check_detector",
    }
    assert expected | {"ChangeBatch.to_arrow", "spark.write", "spark.Run.finish"} <= {*WITH_OPTIONS}


@pytest.mark.parametrize("name", sorted({*WITH_OPTIONS} - HOT))
def test_an_unknown_option_is_named_with_the_nearest(name: str) -> None:
    call = WITH_OPTIONS[name]
    every = inspect.signature(call).parameters.values()
    option = next(p.name for p in every if p.default is not p.empty)
    with pytest.raises(bt.OptionError, match=f"unknown option '{option}x'; did you mean '{option}"):
        call(**{f"{option}x": 1})


def test_good_calls_and_other_errors_are_what_they_were() -> None:
    assert inspect.signature(bt.Zone).parameters["low"].default == bt.Zone().low
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        bt.pattern(emits="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unsupported operand"):
        bt.Derived("x", rows=[0], ts=object() + 1)  # type: ignore[operator]


def hierarchy() -> bt.Hierarchy:
    made = bt.Hierarchy()
    made.add(bt.pattern("A B", emits="C"))
    return made


ANYWHERE: dict[str, Call] = {
    "Engine": lambda **given: bt.Engine(hierarchy(), **given),
    "Hierarchy.adjust": lambda **given: hierarchy().adjust(next(iter(hierarchy())).name, **given),
    "Hierarchy.adjusted": lambda **given: hierarchy().adjusted(**given),
    "EngineOptions.of": bt.EngineOptions.of,
    "EngineOptions.with_": bt.EngineOptions().with_,
    "calibration.calibrate": lambda **given: betimes.calibration.calibrate(
        hierarchy(), [], **given
    ),
    "calibrate": lambda **given: bt.calibrate(hierarchy(), [], **given),
    "detect": lambda **given: bt.detect([], hierarchy(), **given),
    "spark.calibrate": lambda **given: betimes.spark.calibrate(Recording(), hierarchy(), **given),  # type: ignore[arg-type]
    "spark.detect": lambda **given: betimes.spark.detect(Recording(), hierarchy(), **given),  # type: ignore[arg-type]
}
"""Functions whose keywords are options of an engine."""
NAMES = {"aggregate"}
"""Functions whose keywords are not options, but names that the user chooses."""


class Recording:
    """As much of a DataFrame as is looked at before the options."""

    isStreaming = False


def test_the_functions_that_pass_keywords_on_are_known() -> None:
    assert {*ANYWHERE} | NAMES == ANY_KEYWORD


@pytest.mark.parametrize("name", sorted(ANYWHERE))
def test_options_that_are_passed_on_are_checked(name: str) -> None:
    with pytest.raises(bt.OptionError, match=r"'atenuation'; did you mean 'attenuation'\?"):
        ANYWHERE[name](atenuation=1)
    with pytest.raises(bt.OptionError, match="unknown option 'checkpoints'; it is now 'snapshots'"):
        ANYWHERE[name](checkpoints=10)


def test_options_of_the_engine_itself_are_named_too() -> None:
    with pytest.raises(bt.OptionError, match="unknown option 'obsevers'; did you mean 'observers'"):
        bt.Engine(hierarchy(), obsevers=[])
    with pytest.raises(bt.OptionError, match="unknown option 'max_run'; did you mean 'max_runs'"):
        bt.calibrate(hierarchy(), [], max_run=3)
