"""The steps between `detect` and `write`, taken once more for the rows of the end.

The end of a stream is not a micro-batch of its query (see `ending`), so whatever a user does to the
changes must be done to the last rows as well. The plan of the user's DataFrame says what that is:

    user's steps (filter, select, join with a table, ...)
    labels of the columns
    readings taken off
    observed metrics named OUTPUT     <- everything from here down is replaced by the last rows
    stateful operator

The last rows take the place of that part under the same attribute ids, so that all steps above
refer to them as they did to the stream. This is right for steps that look at each row alone. A step
that keeps state (an aggregation, a deduplication, a join of two streams) would start without it
here; it is refused by name. Plans can only be reached in the JVM, so with Spark Connect every step
is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from betimes.model import BetimesError
from betimes.spark.query.origin import Origin, plan_of
from betimes.spark.query.places import is_remote
from betimes.spark.slots.rows import change_schema
from betimes.spark.telemetry.readings import OUTPUT

Steps = Callable[[DataFrame], DataFrame]

ROW_BY_ROW = frozenset(
    {
        "CollectMetrics", "EventTimeWatermark", "Filter", "Generate", "Join", "MapInArrow",
        "MapInPandas", "Project", "PythonMapInArrow", "Repartition", "RepartitionByExpression",
        "ResolvedHint", "SubqueryAlias", "Union", "View",
    }
)  # fmt: skip
"""Nodes of a plan that handle each row of the stream alone."""

_INSTEAD = (
    "write the changes as they come from detect() and transform them in a function into=, or where "
    "you read them; or do not call finish(), and let results settle with detect(..., idle=)"
)


class StepError(BetimesError, RuntimeError):
    """The end of a stream cannot go through the steps that its changes went through."""


def steps_of(changes: DataFrame, origin: Origin) -> Steps:
    """What was done to the changes since `detect`, as a function of other rows."""
    if plan_of(changes) == origin.plan:
        # Nothing, or columns were renamed.
        return lambda rows: rows.toDF(*changes.columns)
    if is_remote(changes):
        raise StepError(
            "finish() cannot repeat what you did to the changes since detect(): with Spark "
            f"Connect the plan is out of reach; {_INSTEAD}"
        )
    path = _path(changes._jdf.queryExecution().analyzed())
    # Tried without rows: what cannot work should fail before the query is stopped.
    _through(path, changes.sparkSession.createDataFrame([], change_schema()))
    return lambda rows: _through(path, rows)


def _path(plan: Any) -> list[tuple[Any, int]]:
    """The nodes from the top of a plan down to the changes, each with the number of the child."""
    path: list[tuple[Any, int]] = []
    while not _is_output(plan):
        kind = plan.getClass().getSimpleName()
        children = _listed(plan.children())
        streams = [number for number, child in enumerate(children) if child.isStreaming()]
        if kind not in ROW_BY_ROW or len(streams) != 1:
            why = "combines streams" if kind in ROW_BY_ROW else "may keep state"
            raise StepError(
                f"finish() cannot repeat the step {kind} between detect() and write(), which "
                f"{why}: the last rows do not pass through the query; {_INSTEAD}"
            )
        path.append((plan, streams[0]))
        plan = children[streams[0]]
    return [*path, (plan, 0)]


def _is_output(plan: Any) -> bool:
    metrics = plan.getClass().getSimpleName() == "CollectMetrics"
    return bool(metrics and plan.name() == OUTPUT)


def _through(path: list[tuple[Any, int]], rows: DataFrame) -> DataFrame:
    spark: Any = rows.sparkSession
    jvm = spark._jvm
    *above, (output, _) = path
    plan = _renumbered(jvm, rows._jdf.queryExecution().analyzed(), output)
    for node, number in reversed(above):
        children = _listed(node.children())
        children[number] = plan
        plan = node.withNewChildren(jvm.PythonUtils.toSeq(children))
    data = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(data, spark)


def _renumbered(jvm: Any, plan: Any, like: Any) -> Any:
    """A plan whose columns have the attribute ids of another's."""
    catalyst = jvm.org.apache.spark.sql.catalyst
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    nothing = jvm.PythonUtils.toSeq([])
    columns = [
        catalyst.expressions.Alias(mine, its.name(), its.exprId(), nothing, none, nothing)
        for mine, its in zip(_listed(plan.output()), _listed(like.output()), strict=True)
    ]
    return catalyst.plans.logical.Project(jvm.PythonUtils.toSeq(columns), plan)


def _listed(seq: Any) -> list[Any]:
    """A sequence of Scala's as a list."""
    return [seq.apply(number) for number in range(seq.size())]
