"""Why a query has failed, in words that help."""

from __future__ import annotations

import re

import pyspark

from betimes.model import BetimesError

PACKAGES = {
    "kafka": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
    "delta": "io.delta:delta-spark_2.13:VERSION",
}
"""The packages of formats that Spark does not include. Delta has its own version numbers."""


class RunError(BetimesError, RuntimeError):
    """A query has failed: why, and what to do."""


def reason(text: str) -> str:
    """What the error of a failed query means, and what to do about it."""
    if "No space left on device" in text:
        return (
            "the disk is full: a batch could not be stored. Free space and start again: the "
            "run resumes after the last complete batch"
        )
    if "EOFError" in text and "_receive_proto_message" in text:
        # What stores the state has stopped; only its own messages, on stderr, say why.
        return (
            "a batch could not be stored, and Spark says why only on stderr; the disk may be full. "
            "Free space and start again: the run resumes after the last complete batch"
        )
    missing = re.search(r"[Ff]ailed to find (?:the )?data source: (\w+)", text)
    if missing is not None:
        return _missing_package(missing[1])
    if "CONCURRENT" in text and "LOG" in text:
        return "another run uses the same checkpoint; stop one of them"
    # An error of betimes may have several lines; Spark adds its own after it.
    own = re.findall(r"^betimes\.[\w.]+: (.+(?:\n(?!\s*$|\s+at |=== ).+)*)", text, re.M)
    if own:
        return str(own[-1]).partition(" SQLSTATE:")[0].strip()
    lines = [line for line in text.splitlines() if re.match(r"^[\w.]+(Error|Exception): ", line)]
    return lines[-1] if lines else text


def _missing_package(format: str) -> str:  # noqa: A002
    """What to do if Spark does not know a format."""
    package = PACKAGES.get(format)
    if package is None:
        return f"Spark does not know the format {format!r}; add the package that provides it"
    return (
        f"Spark does not know the format {format!r}: it is in a package that Spark must be given. "
        f'Set "spark.jars.packages" = "{package}" where you make the session ([engine.config] in a '
        f"job file), or start with spark-submit --packages {package}"
    )
