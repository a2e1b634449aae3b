"""Which call of `detect` a DataFrame comes from, and what its columns were called there.

Users transform what `detect` returns, and `write` still needs the job behind it: to guard the
checkpoint and to end the stream. So every column of the changes carries notes in its metadata: the
name it has there and, if it is a stream, the id of the job. Spark keeps the metadata of a column
through filters, selections, renames, joins and unions for as long as the column itself is kept; a
column that is computed has none. One column that was kept is therefore enough to find the job.

The job holds detectors, which do not fit into metadata. It stays in this process, under its id, and
so does the number of the plan that `detect` returned, which says whether it was transformed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from betimes.host.rows import COLUMNS
from betimes.model import OptionError
from betimes.spark.job import Job
from betimes.spark.query.places import is_remote

COLUMN = "betimes.column"
JOB = "betimes.job"


@dataclass(frozen=True)
class Origin:
    """One call of `detect` on a stream."""

    job: Job
    plan: int
    """The number of the plan that `detect` returned; see `plan_of`."""


_origins: dict[str, Origin] = {}
"""Every stream of this process, by the id in the metadata. A job is a few kilobytes."""


def labelled(
    changes: DataFrame, names: Mapping[str, str], notes: Mapping[str, str] | None = None
) -> DataFrame:
    """Changes that know what their columns are, with the names that users want."""
    return changes.select(
        *(
            _alias(name, names.get(name, name), {COLUMN: name} | dict(notes or {}))
            for name in COLUMNS
        )
    )


def registered(changes: DataFrame, job: Job, names: Mapping[str, str]) -> DataFrame:
    """A stream of changes that also knows its job."""
    job_id = uuid4().hex
    marked = labelled(changes, names, {JOB: job_id})
    _origins[job_id] = Origin(job, plan_of(marked))
    return marked


def plan_of(changes: DataFrame) -> int:
    """A number that changes with every step except a rename.

    With Spark 4.0, a rename changes it, too, and so it does with Spark Connect, where it is the
    number that the client gives to a plan.
    """
    if is_remote(changes):
        remote: Any = changes
        return int(remote._plan._plan_id)
    return changes.semanticHash()


def origin_of(changes: DataFrame) -> Origin | None:
    """The call of `detect` that a stream comes from; None if no column tells."""
    ids = {field.metadata.get(JOB) for field in changes.schema}
    found = [_origins[each] for each in ids if each in _origins]
    if len(found) > 1:
        raise OptionError(
            f"expected changes of one detect(), got those of {len(found)} in one DataFrame; write "
            "each of them with its own write() and checkpoint="
        )
    return found[0] if found else None


def names_of(changes: DataFrame) -> dict[str, str]:
    """What the columns of the changes are called in a DataFrame, as far as they are there."""
    originals = [(field.metadata.get(COLUMN), field.name) for field in changes.schema]
    # A column without a label, such as one from a CSV file, is what its name says. Of several
    # copies, the one with the original name is preferred, then the first.
    names = {name: name for original, name in originals if original is None and name in COLUMNS}
    names |= {original: name for original, name in reversed(originals) if original is not None}
    return names | {name: name for original, name in originals if original == name}


def require(names: Mapping[str, str], wanted: Sequence[str], what: str) -> None:
    """Refuse a DataFrame that lacks columns which something needs."""
    missing = [name for name in wanted if name not in names]
    if missing:
        raise OptionError(
            f"{what} needs the columns {list(wanted)} of detect(), but {missing} are not there any "
            "more; keep them when you transform the changes"
        )


def published(rows: DataFrame, changes: DataFrame) -> DataFrame:
    """Rows with the labels of a stream of changes, without the id of the job.

    That means nothing to those who read what is written.
    """
    return rows.select(
        *(
            _alias(field.name, field.name, {k: v for k, v in field.metadata.items() if k != JOB})
            for field in changes.schema
        )
    )


def _alias(name: str, alias: str, metadata: dict[str, Any]) -> Column:
    return F.col("`" + name.replace("`", "``") + "`").alias(alias, metadata=metadata)
