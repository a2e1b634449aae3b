"""Compiled functions whose cache on disk never goes stale.

numba compiles a function at its first call, and can cache the machine code on disk. It checks one
source file per function: a function that calls another one in a different file, or uses a constant
from there, keeps running the old code after that file has changed. Here, the cache of a module's
functions depends on the *sources* of the module: its own file and, transitively, the files that it
imports from its own top-level package (`betimes`). A hash of their contents and of the versions of
numba and NumPy is the *fingerprint*, which names the folder:

    ~/.cache/betimes/betimes.ordering.kernel.feed-1f0c5a3e9b7d2468

Any change leads to another folder, and all processes that run the same code share one, no matter
how they were started. The folder `betimes` is in `NUMBA_CACHE_DIR` if that is set, otherwise in
`XDG_CACHE_HOME` or `~/.cache`. If it is not writable, numba chooses the place, and the fingerprint
still decides whether what it finds there is current. If numba finds no place either, every process
compiles.

The fingerprint is taken when a function is decorated, because this process does not run what is
written to a file later. The folder is looked up at the first call. A process that makes a new
folder removes those that no process has used for `UNUSED` seconds, and leaves the younger ones to
other versions of betimes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property, partial
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba.core import caching, config

F = TypeVar("F", bound=Callable[..., object])

UNUSED = 30 * 24 * 3600
"""Seconds without use after which a folder may be removed."""

_IMPORT = re.compile(
    r"^(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]*))",
    re.MULTILINE,
)
_NAME = re.compile(r"[\w.]+")
_FOLDER = re.compile(r".+-[0-9a-f]{16}")


def compiled(function: F) -> F:
    """Compile a function with numba at its first call, and cache the machine code on disk.

    >>> @compiled
    ... def twice(x: int) -> int:
    ...     return 2 * x
    >>> twice(21)
    42
    """
    made: Any = numba.njit(function)
    if made is not function:  # as with NUMBA_DISABLE_JIT
        module = sys.modules.get(function.__module__)
        # A function typed at a prompt is in no file, so nothing tells when it changes.
        in_file = getattr(module, "__file__", None) == function.__code__.co_filename
        made._cache = _Cache(function, _loaded(function.__module__) if in_file else None)
    return cast(F, made)


_fingerprints: dict[str, tuple[object, str | None]] = {}


def _loaded(module: str) -> str | None:
    """The fingerprint of a module, taken once each time it is loaded."""
    spec = getattr(sys.modules[module], "__spec__", None)  # each reload makes a new one
    known = _fingerprints.get(module)
    if known is None or known[0] is not spec:
        known = _fingerprints[module] = spec, fingerprint(module)
    return known[1]


def fingerprint(module: str) -> str | None:
    """A hash of everything a module's compiled code is made from; None if a source is missing."""
    sources = _sources(module)
    if sources is None:
        return None
    parts = [numba.__version__, np.__version__]
    parts += (f"{name} {sources[name].digest}" for name in sorted(sources))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class _Source(NamedTuple):
    digest: str
    imports: list[str]


def _sources(module: str) -> dict[str, _Source] | None:
    """The sources of a module, by module; None if one is missing."""
    todo, sources = [module], dict[str, _Source]()
    while todo:
        name = todo.pop()
        if name not in sources:
            source = _source(name)
            if source is None:
                return None
            sources[name] = source
            todo += source.imports
    return sources


def _source(name: str) -> _Source | None:
    file: str | None = getattr(sys.modules.get(name), "__file__", None)
    if file is None or not file.endswith(".py"):
        return None
    try:
        found = os.stat(file)
        version = found.st_mtime_ns, found.st_size
    except OSError:  # in a zip archive
        version = 0, 0
    return _read(name, file, version)


@cache
def _read(name: str, file: str, version: tuple[int, int]) -> _Source | None:  # noqa: ARG001
    """Read a file once for each of its versions: a module may be edited and reloaded."""
    loader: Any = getattr(sys.modules[name], "__loader__", None)
    try:
        source: bytes = loader.get_data(file)
    except (AttributeError, OSError):
        return None
    return _Source(hashlib.sha256(source).hexdigest(), list(_imports(name, source)))


def _imports(name: str, source: bytes) -> Iterator[str]:
    """The modules of the same package that a module imports at its top level.

    A regular expression finds them, because parsing takes fifty times as long.
    """
    top = name.partition(".")[0]
    for origin, names, plain in _IMPORT.findall(source.decode(errors="replace")):
        if origin:
            if origin.startswith("."):
                origin = resolve_name(origin, getattr(sys.modules[name], "__package__", top))
            found = [origin, *(f"{origin}.{each}" for each in _NAME.findall(names))]
        else:
            found = _NAME.findall(plain)
        for each in found:
            if each in sys.modules and each.partition(".")[0] == top:
                yield each


def _home() -> Path:
    """The parent of all our folders; not absolute if there is none."""
    chosen: str = config.CACHE_DIR  # type: ignore[attr-defined]  # set when numba reads its settings
    if chosen:
        return Path(chosen).absolute() / "betimes"
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the standard wants others ignored
        base = os.path.expanduser("~/.cache")
    return Path(base, "betimes")


@cache
def _folder(home: Path, name: str) -> Path | None:
    """The folder of this name, writable and marked as used; None if that cannot be."""
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
    before = time.time() - UNUSED
    with suppress(OSError):
        for folder in home.iterdir():
            # Another process may remove it first.
            with suppress(OSError):
                if _FOLDER.fullmatch(folder.name) and folder.stat().st_mtime < before:
                    shutil.rmtree(folder, ignore_errors=True)


class _Locator(caching._CacheLocator):
    """Tells numba our folder."""

    def __init__(self, function: Callable[..., object], file: str, folder: Path) -> None:
        self._py_file = file  # numba names it in warnings
        self._line = function.__code__.co_firstlineno
        self._folder = folder

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._folder.name

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Locators:
    """Makes the locator of a function, or none, as the classes of numba's locators do."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp

    def from_function(self, function: Callable[..., object], file: str) -> _Locator | None:
        folder = _folder(_home(), f"{function.__module__}-{self._stamp}")
        return None if folder is None else _Locator(function, file, folder)


class _Files(caching.CompileResultCacheImpl):
    """Looks at our folder first, then at the places that numba would choose."""

    def __init__(self, function: Callable[..., object], stamp: str) -> None:
        self._locator_classes: list[Any] = [_Locators(stamp), *self._locator_classes]
        super().__init__(function)  # type: ignore[no-untyped-call]


class _FunctionCache(caching.FunctionCache):
    """numba's cache of a function, current only as long as the fingerprint is the same."""

    def __init__(self, function: Callable[..., object], stamp: str) -> None:
        self._impl_class: Any = partial(_Files, stamp=stamp)
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file = caching.IndexDataCacheFile(  # type: ignore[no-untyped-call]
            cache_path=self._cache_path, filename_base=self._impl.filename_base, source_stamp=stamp
        )


class _Cache(caching._Cache):
    """A cache that looks for its place when it is first asked; what fails is compiled."""

    def __init__(self, function: Callable[..., object], stamp: str | None) -> None:
        self._function = function
        self._stamp = stamp

    @cached_property
    def _files(self) -> Any:
        if self._stamp is None:
            return caching.NullCache()
        try:
            return _FunctionCache(self._function, self._stamp)
        except (OSError, RuntimeError):  # numba's answer if no place is writable
            return caching.NullCache()

    @property
    def cache_path(self) -> str | None:
        path: str | None = self._files.cache_path
        return path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(OSError):
            return self._files.load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            self._files.save_overload(sig, data)

    def enable(self) -> None:
        self._files.enable()

    def disable(self) -> None:
        self._files.disable()

    def flush(self) -> None:
        self._files.flush()
