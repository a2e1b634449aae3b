"""Predictors: which transactions are worth running before it is their turn.

Running a transaction early is a bet that no earlier one will change what it reads. A predictor is
asked about transactions in order, beginning with the one whose turn it is, and says one of these:

* `True`: run it now;
* `False`: run it when it is its turn;
* a number `n`: run it as soon as it is among the next `n`, that is, once the transaction `n` places
  before it is committed;
* `None`: not now; ask again.

It is told what became of the bets. Predictors decide about time only, never about results.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from betimes.model.detector import DetectorError
from betimes.model.errors import OptionError
from betimes.model.event import Event
from betimes.model.hints import did_you_mean
from betimes.transactions.effects import Key
from betimes.transactions.tracked import Execute, Record

Verdict = bool | int | None


class Predictor(Protocol):
    """Says which transactions should run before it is their turn."""

    def keys(self, event: Event) -> Sequence[Any]:
        """Transactions that have one of these in common must follow each other."""

    def verdict(self, event: Event, ahead: int) -> Verdict:
        """Whether to run a transaction; `ahead` is 1 if it is its turn, 2 for the next one."""

    def note(self, event: Event, *, lost: bool) -> None:
        """A transaction has run early, and has lost or not."""


class Fixed:
    """Always the same verdict: True, False, or how far ahead to run."""

    def __init__(self, answer: bool | int) -> None:
        self._answer = answer

    def keys(self, event: Event) -> Sequence[Any]:  # noqa: ARG002
        """Nothing depends on the others."""
        return ()

    def verdict(self, event: Event, ahead: int) -> Verdict:  # noqa: ARG002
        return self._answer

    def note(self, event: Event, *, lost: bool) -> None:
        """It does not learn."""

    def __repr__(self) -> str:
        answers = {True: "always", False: "never"}
        known = type(self._answer) is bool
        return answers[bool(self._answer)] if known else f"horizon({self._answer})"


class Asked(Fixed):
    """The user's function of an event, and of how far ahead it is."""

    def __init__(self, function: Callable[[Event, int], Verdict], name: str) -> None:
        self._function = function
        self._name = name

    def verdict(self, event: Event, ahead: int) -> Verdict:
        try:
            said = self._function(event, ahead)
        except Exception as error:
            raise DetectorError(
                f"the predictor {self!r} of {self._name} failed at {event!r}, {ahead} ahead: "
                f"{type(error).__name__}: {error}"
            ) from error
        if said is not None and not isinstance(said, bool | int):
            raise DetectorError(
                f"expected the predictor {self!r} of {self._name} to return True, False, None or "
                f"a number of transactions, got {said!r} for {event!r}"
            )
        return said

    def __repr__(self) -> str:
        return getattr(self._function, "__name__", repr(self._function))


class Dynamic(Fixed):
    """A horizon that follows the conflicts: it grows with bets won, and halves with each lost."""

    _PATIENCE = 16
    _FURTHEST = 1024

    def __init__(self) -> None:
        self.horizon = 4.0

    def verdict(self, event: Event, ahead: int) -> Verdict:  # noqa: ARG002
        return int(self.horizon)

    def note(self, event: Event, *, lost: bool) -> None:  # noqa: ARG002
        if lost:
            self.horizon = max(1.0, self.horizon / 2)
        else:
            self.horizon = min(self._FURTHEST, self.horizon + self.horizon / self._PATIENCE)

    def __repr__(self) -> str:
        return f"dynamic, now horizon({int(self.horizon)})"


class Keyed(Fixed):
    """Transactions that will use the same keys follow each other; all others run at once."""

    def __init__(self, keys: Callable[[Event], list[Any]], name: str) -> None:
        super().__init__(True)
        self._keys = keys
        self._name = name

    def keys(self, event: Event) -> Sequence[Any]:
        keys = self._keys(event)
        # No state has keys that cannot be hashed, so nobody waits for them.
        return keys if all(map(_can_be_hashed, keys)) else [*filter(_can_be_hashed, keys)]

    def __repr__(self) -> str:
        return self._name


def _can_be_hashed(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


class Learned(Keyed):
    """Learns which attributes of events conflict: transactions that share such a value wait.

    An attribute conflicts if its values recur among transactions that lost soon after they were
    seen, much more often than among the others. If no attribute does, and yet many transactions
    lose, those that recur in nearly all of them have to do: then hardly any run at once, and that
    is as well.
    """

    _RECENT = 64
    _ENOUGH = 8

    def __init__(self) -> None:
        super().__init__(self._shared, "learned")
        self._recent: dict[tuple[str, Any], int] = {}
        self._count = 0
        self._lost: dict[str, int] = {}
        self._won: dict[str, int] = {}
        self.attributes: frozenset[str] = frozenset()

    def _shared(self, event: Event) -> list[Any]:
        return [(name, event.payload.get(name)) for name in self.attributes]

    def note(self, event: Event, *, lost: bool) -> None:
        self._count += 1
        counts = self._lost if lost else self._won
        counts[""] = counts.get("", 0) + 1
        for name, value in _plain(event):
            before = self._recent.get((name, value), -self._RECENT)
            if self._count - before < self._RECENT:
                counts[name] = counts.get(name, 0) + 1
            self._recent[name, value] = self._count
        if len(self._recent) > 64 * self._RECENT:
            self._recent.clear()
        if lost and counts[""] >= self._ENOUGH:
            names = self._lost.keys() - {""}
            count = self._lost[""]
            found = frozenset(filter(self._conflicts, names))
            if not found and 3 * count > count + self._won.get("", 0):
                found = frozenset(name for name in names if self._lost[name] > 0.9 * count)
            self.attributes = found

    def _conflicts(self, name: str) -> bool:
        among_lost = self._lost.get(name, 0) / self._lost[""]
        among_won = self._won.get(name, 0) / max(self._won.get("", 0), 1)
        return among_lost > 0.5 and among_lost > 2 * among_won

    def __repr__(self) -> str:
        return f"learned: {sorted(self.attributes)}" if self.attributes else "learned: nothing yet"


class Hindsight:
    """Which transactions that ran one after the other would have conflicted if run at once."""

    _NEAR = 32
    _MOST = 4096

    def __init__(self) -> None:
        self._written: dict[Key, int] = {}
        self._count = 0

    def conflicts(self, record: Record | None) -> bool:
        """Whether the next transaction has read what one shortly before it wrote."""
        if record is None:
            return False
        self._count += 1
        written, near = self._written, self._count - self._NEAR
        found = any(written.get((name, key), near) > near for _, name, key in record.reads)
        if len(written) > self._MOST:
            written.clear()
        written.update(dict.fromkeys(record.writes, self._count))
        return found


def _plain(event: Event) -> Iterator[tuple[str, Any]]:
    for name, value in event.payload.items():
        if isinstance(value, int | str):
            yield name, value


# Reading the keys off the code


def static_keys(execute: Execute) -> tuple[str, ...] | None:
    """The attributes of events that `execute` uses as keys, if that is all it uses.

    >>> def pay(event, balance):
    ...     balance.add(event["from"], -event["amount"])
    ...     balance[event["to"]] = 1
    >>> static_keys(pay)
    ('from', 'to')
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(execute)))
    except (OSError, TypeError, SyntaxError):
        return None
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or len(function.args.args) != 2:
        return None
    event, state = (argument.arg for argument in function.args.args)
    aliases = _aliases(function, event)
    found: dict[str, None] = {}
    uses = [node for node in ast.walk(function) if _is_name(node, state)]
    for key, owner in _keys_used(function, state):
        attribute = _attribute(key, event, aliases)
        if attribute is None:
            return None
        found[attribute] = None
        uses.remove(owner)
    return None if uses or not found else tuple(found)


_METHODS = frozenset({"get", "add", "max", "min", "append", "pop", "setdefault"})


def _keys_used(function: ast.AST, state: str) -> Iterator[tuple[ast.expr, ast.AST]]:
    """The expressions that are used as keys of the state, each with the node of the state."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and _is_name(node.value, state):
            yield node.slice, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if _is_name(owner, state) and node.func.attr in _METHODS and node.args:
                yield node.args[0], owner
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            owner = node.comparators[0]
            if isinstance(node.ops[0], ast.In | ast.NotIn) and _is_name(owner, state):
                yield node.left, owner


def _aliases(function: ast.AST, event: str) -> dict[str, str]:
    """Variables that are assigned once, from an attribute of the event."""
    nodes = list(ast.walk(function))
    stored = [node.id for node in nodes if isinstance(node, ast.Name)
              and isinstance(node.ctx, ast.Store)]  # fmt: skip
    found: dict[str, str] = {}
    for node in nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        pairs = [(node.targets[0], node.value)]
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
        for target, value in pairs:
            attribute = _attribute(value, event, {})
            if isinstance(target, ast.Name) and attribute and stored.count(target.id) == 1:
                found[target.id] = attribute
    return found


def _attribute(node: ast.expr, event: str, aliases: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if (
        isinstance(node, ast.Subscript)
        and _is_name(node.value, event)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    ):
        return node.slice.value
    return None


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


# What users write

Choice = str | Fixed | Callable[[Event, int], Verdict]
_NAMES = ("adaptive", "always", "dynamic", "learned", "never", "static")


def horizon(n: int) -> Fixed:
    """A predictor that lets transactions run up to `n` places ahead of the next one to commit."""
    if type(n) is not int or n < 1:
        raise OptionError(f"expected a horizon to be a number of transactions from 1 on, got {n!r}")
    return Fixed(n)


def checked_predictor(choice: Choice) -> Choice:
    """A choice that `predictor_of` takes; an error for any other."""
    if isinstance(choice, Fixed) or (callable(choice) and not isinstance(choice, str)):
        return choice
    if choice not in _NAMES:
        raise OptionError(
            f"expected predictor to be one of {', '.join(_NAMES)}, horizon(n) or a function of an "
            f"event, got predictor={choice!r}" + did_you_mean(choice, _NAMES)
        )
    return choice


def predictor_of(choice: Choice, execute: Execute, name: str = "the operator") -> Predictor:
    """A new predictor, as the user chose it, for an operator that errors call by its name."""
    if isinstance(choice, Fixed):
        return choice
    if not isinstance(choice, str):
        return Asked(choice, name)
    if choice in ("always", "never"):
        return Fixed(choice == "always")
    if choice == "dynamic":
        return Dynamic()
    if choice == "learned":
        return Learned()
    names = static_keys(execute)
    if names is not None:
        known = names

        def keys(event: Event) -> list[Any]:
            return [event.payload.get(name) for name in known]

        return Keyed(keys, f"static: {', '.join(known)}")
    if choice == "static":
        raise OptionError(
            "predictor='static' needs a function whose keys are attributes of its event, as in "
            f"state[event['account']], and nothing else; {execute!r} uses others"
        )
    return Learned()
