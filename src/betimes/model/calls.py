"""One call at a time: objects that two threads must not use at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from betimes.model.errors import BusyError

P = ParamSpec("P")
T = TypeVar("T")


class Locked(Protocol):
    """An object with a lock."""

    lock: Lock


O = TypeVar("O", bound=Locked)  # noqa: E741


def alone(method: Callable[Concatenate[O, P], T]) -> Callable[Concatenate[O, P], T]:
    """A call that refuses to run while another one does, from another thread or from inside."""

    @wraps(method)
    def call(self: O, /, *args: P.args, **keywords: P.kwargs) -> T:
        if not self.lock.acquire(blocking=False):
            kind = type(self).__name__.lower()
            raise BusyError(
                f"expected one call at a time, but {method.__name__}() was called while this "
                f"{kind} is at work; use one {kind} per thread, or a lock around your calls"
            )
        try:
            return method(self, *args, **keywords)
        finally:
            self.lock.release()

    return call
