"""Folders: by path on this machine, elsewhere through the file systems that Spark knows."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

_PLAIN = re.compile(r"[\w/.:=+,@~-]*")
"""Names that stay the same inside a URL."""


def local_path(place: str) -> Path | None:
    """The path of a place on this machine, or None if it is elsewhere.

    >>> str(local_path("file:///a%20b/c")), local_path("s3a://bucket/c")
    ('/a b/c', None)
    """
    parts = urlparse(place)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme and parts.netloc else Path(place)


def is_plain(place: str) -> bool:
    """Whether Spark can read the state of a query that is stored under this name.

    >>> is_plain("s3a://bucket/touches-1"), is_plain("/tmp/my job")
    (True, False)
    """
    return _PLAIN.fullmatch(place) is not None


def literal(place: str) -> str:
    """A place as Spark's readers take it: to them, some characters are wildcards.

    >>> print(literal("runs/[1]"))
    runs/\\[1\\]
    """
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", place)


def is_remote(spark: DataFrame | SparkSession) -> bool:
    """Whether a session, or the one that a DataFrame belongs to, is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def subfolders(spark: SparkSession, place: str, name: str) -> list[int]:
    """The numbers n of the complete folders `name=n` in a place."""
    folder = local_path(place)
    if folder is not None:
        found = [path.parent.name for path in folder.glob(f"{name}=*/_SUCCESS")]
    else:
        files = spark.read.format("binaryFile").option("pathGlobFilter", "_SUCCESS")
        try:
            every = files.option("recursiveFileLookup", "true").load(literal(place))
            rows = every.select("path").collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return []
        found = [row.path.split("/")[-2] for row in rows]
    return [int(each.partition("=")[2]) for each in found]
