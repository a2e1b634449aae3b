"""Compiled functions: numba is loaded at the first call, and its cache on disk never goes stale.

**Late.** numba takes as long to import as everything else together. So `compiled` only notes a
function; at the first call of any of them, numba is imported, and all of them become its functions,
wherever a module of the package has them by name.

**Cached by content.** numba can cache machine code on disk, but looks at one source file per
function: one that calls another in a different file, or uses a constant from there, would keep
running the old code. Here a compiled function may use what is in its own folder, and nothing else
of the package; a hash of all sources in that folder, and of the versions of numba and NumPy, names
the folder of the cache:

    ~/.cache/betimes/betimes.ordering.kernel-1f0c5a3e9b7d2468

All processes that run the same code share it, no matter how they were started. It is in
`NUMBA_CACHE_DIR` if that is set, otherwise in `XDG_CACHE_HOME` or `~/.cache`. If it cannot be
written, numba chooses the place, and if it finds none, every process compiles. A process that makes
a new folder removes those that no process has used for `UNUSED` seconds.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])

UNUSED = 30 * 24 * 3600
"""Seconds without use after which a folder may be removed."""

_OPTIONS: Any = {"no_cfunc_wrapper": True}
"""No C code calls these functions. Without a way in for it, compiling takes a tenth less."""

_FOLDER = re.compile(r".+-[0-9a-f]{16}")
_noted: list[_Compiled] = []
"""Functions that numba does not know yet."""
_lock = threading.RLock()


def compiled(function: F) -> F:
    """Compile a function with numba at its first call, and cache the machine code on disk.

    >>> @compiled
    ... def twice(x: int) -> int:
    ...     return 2 * x
    >>> twice(21)
    42
    """
    return _note(function)


def inlined(function: F) -> F:
    """Like `compiled`, and copied into every compiled function that calls it.

    For what a loop does for every event: a call hands over each array as a dozen numbers. numba
    refuses functions with a `return` before the end.
    """
    return _note(function, inline="always")


def _note(function: F, **options: Any) -> F:
    made = _Compiled(function, options)
    _noted.append(made)
    return cast(F, made)


class _Compiled:
    """Stands for a function until it is first called."""

    def __init__(self, function: Callable[..., object], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = _OPTIONS | options
        module = sys.modules.get(function.__module__)
        file = getattr(module, "__file__", None)
        # A function typed at a prompt is in no file, so nothing tells when it changes.
        self._cache: tuple[str, str] | None = None
        if file is not None and file == function.__code__.co_filename:
            self._cache = (function.__module__.rpartition(".")[0], sources(Path(file).parent))
        self.made: Any = None

    def __call__(self, *args: Any) -> Any:
        if self.made is None:
            _make_all()
        return self.made(*args)

    def make(self) -> None:
        """Have numba take over."""
        import numba
        from numba.core import config

        settings: Any = config
        folder = None
        if self._cache is not None:
            folder = _folder(_home(settings.CACHE_DIR), _named(*self._cache))
        before = settings.CACHE_DIR
        # Read when the cache of a function is set up, and only then.
        settings.CACHE_DIR = before if folder is None else str(folder)
        try:
            self.made = numba.njit(cache=self._cache is not None, **self._options)(self._function)
        except (OSError, RuntimeError):  # numba's answer if no place can be written
            self.made = numba.njit(**self._options)(self._function)
        finally:
            settings.CACHE_DIR = before


def _make_all() -> None:
    """Have numba take over all functions that were noted, wherever they are bound."""
    with _lock:
        for each in _noted:
            each.make()
        packages = {each._function.__module__.partition(".")[0] for each in _noted}
        _noted.clear()
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in packages:
                for bound, value in list(vars(module).items()):
                    if isinstance(value, _Compiled) and value.made is not None:
                        setattr(module, bound, value.made)


@functools.cache
def sources(folder: Path) -> str:
    """A hash of all sources that the compiled code of a folder is made from, when first loaded."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        with suppress(OSError):
            digest.update(f"\n{file.name} ".encode() + file.read_bytes())
    return digest.hexdigest()


def _named(package: str, sources: str) -> str:
    """The name of a folder of the cache, for the versions of numba and NumPy that are loaded."""
    import numba
    import numpy

    made_from = f"{numba.__version__} {numpy.__version__} {sources}"
    return f"{package}-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}"


def _home(chosen: str) -> Path:
    """The parent of all our folders; not absolute if there is none."""
    base = chosen or os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the standard wants others ignored
        base = os.path.expanduser("~/.cache")
    return Path(base, "betimes")


@functools.cache
def _folder(home: Path, name: str) -> Path | None:
    """The folder of this name, writable and marked as used; None if that cannot be."""
    import tempfile

    folder = home / name
    if not home.is_absolute():
        return None
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = not folder.exists()
        folder.mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)
    except OSError:
        return None
    if new:
        _remove_unused(home)
    return folder


def _remove_unused(home: Path) -> None:
    import shutil

    before = time.time() - UNUSED
    with suppress(OSError):
        for folder in home.iterdir():
            # Another process may remove it first.
            with suppress(OSError):
                if _FOLDER.fullmatch(folder.name) and folder.stat().st_mtime < before:
                    shutil.rmtree(folder, ignore_errors=True)
