"""What cannot work is refused, if possible before a query starts, and says what to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from betimes import (
    BetimesError,
    Event,
    EventError,
    Hierarchy,
    OptionError,
    transactional,
    window,
    windowed,
)
from betimes import spark as bs
from betimes.engine import CheckpointError
from betimes.model import StreamEndedError
from betimes.spark.query.guard import CheckpointGuard
from betimes.spark.query.origin import origin_of
from betimes.spark.shipping import ship
from tests.spark.material import (
    SCHEMA,
    Fragile,
    defined_in_the_script,
    hierarchy,
    read,
    stream,
    write_parts,
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(stream(400), tmp_path_factory.mktemp("refusals") / "in", 400)


def detected(events: DataFrame, detectors: Hierarchy | None = None, **options: Any) -> DataFrame:
    given: dict[str, Any] = {"arrival": "seq", "by": "key", "slots": 1} | options
    return bs.detect(events, detectors or hierarchy(), **given)


@pytest.mark.parametrize(
    ("change", "options", "error", "words"),
    [
        (lambda df: df.drop("ts"), {}, EventError, "'ts'.*time="),
        (lambda df: df, {"time": "tss"}, EventError, "'tss'"),
        (lambda df: df.withColumn("ts", df.ts > 5), {}, EventError, "'ts'.*boolean; cast it"),
        (lambda df: df.withColumn("type", df.ts), {}, EventError, "text in the column 'type'"),
        (lambda df: df, {"by": "keys"}, EventError, "'keys'.*'key'"),
        (lambda df: df, {"payload": ["force", "colour"]}, EventError, r"\['colour'\]"),
        (lambda df: df, {"slots": 0}, OptionError, "slots=0"),
        (lambda df: df, {"by": None, "slots": 3}, OptionError, "slots=3.*by="),
        (lambda df: df, {"results": "last"}, OptionError, "'provisional' or 'final'"),
        (lambda df: df, {"atenuation": 0.5}, OptionError, "did you mean 'attenuation'"),
        (lambda df: df, {"slotz": 2}, OptionError, "unknown option 'slotz'; did you mean 'slots'"),
        (lambda df: df, {"columns": {"tss": "at"}}, OptionError, "did you mean 'ts'"),
        (lambda df: df, {"columns": {"ts": "seq"}}, OptionError, "keep names apart"),
    ],
)
def test_columns_and_options_are_checked_before_anything_runs(
    spark: SparkSession,
    source: Path,
    change: Callable[[DataFrame], DataFrame],
    options: dict[str, Any],
    error: type[BetimesError],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        detected(change(read(spark, source)), **options)


class Locked:
    """Has something that stays on the machine where it was made."""

    def __init__(self) -> None:
        self.door = threading.Lock()

    def on_event(self, event: Any) -> None:
        del event


def test_a_detector_that_cannot_be_shipped_names_the_attribute(
    spark: SparkSession, source: Path
) -> None:
    detectors = Hierarchy(clock="ball")
    detectors.add(Locked(), on="hit", emits="touch", name="locked")
    with pytest.raises(bs.ShippingError, match=r"'locked'.*attribute 'door'.*lock"):
        detected(read(spark, source), detectors)


def paid(event: Event, state: Any) -> None:
    state["paid"] = event.ts


@pytest.mark.parametrize(
    ("thing", "operator"),
    [
        (Fragile, lambda workers: windowed(Fragile, window(count=3), instances=workers)),
        (paid, lambda workers: transactional(paid, workers=workers)),
    ],
    ids=["windows", "transactions"],
)
def test_processes_of_workers_cannot_import_what_the_script_defines(
    monkeypatch: pytest.MonkeyPatch, thing: Any, operator: Callable[[int], Any]
) -> None:
    monkeypatch.setattr(thing, "__module__", "__main__")
    defined_in_the_script(monkeypatch, thing)
    alone, several = Hierarchy(clock="ball"), Hierarchy(clock="ball")
    alone.add(operator(1), on="hit", emits="touch", name="ours")
    several.add(operator(2), on="hit", emits="touch", name="ours")
    assert ship(alone)
    with pytest.raises(bs.ShippingError, match=r"'ours' runs in processes.*define it in a module"):
        ship(several)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({}, "one place"),
        ({"path": "/tmp/out", "table": "t"}, "one place"),
        ({"path": "/tmp/out", "format": "xlsx"}, "'xlsx'"),
        ({"path": "/tmp/out", "format": "console"}, "neither a path nor a table"),
        ({"format": "noop", "every": "1s", "available_now": True}, "got both"),
    ],
)
def test_places_are_checked(
    spark: SparkSession, source: Path, tmp_path: Path, places: dict[str, Any], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        bs.write(detected(read(spark, source)), checkpoint=str(tmp_path), **places)
    assert not list(tmp_path.iterdir())


def test_only_changes_can_be_written_and_only_those_at_rest_have_a_table(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    changes = detected(read(spark, source))
    with pytest.raises(OptionError, match=r"that detect.*\['later'\].*such as match_id"):
        bs.write(changes.selectExpr("ts + 1 as later"), format="noop", checkpoint=str(tmp_path))
    with pytest.raises(OptionError, match=r"that detect.*not a stream"):
        bs.write(detected(spark.createDataFrame([], SCHEMA)), format="noop", checkpoint="x")
    with pytest.raises(OptionError, match="at rest"):
        bs.table(changes)


def test_checkpoints_that_are_not_ours(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    changes = detected(read(spark, source))
    (tmp_path / "theirs" / "offsets").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="another streaming query"):
        bs.write(changes, format="noop", checkpoint=str(tmp_path / "theirs"))
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written"):
        bs.write(changes, format="noop", checkpoint=str(tmp_path / "file"))
    with pytest.raises(CheckpointError, match="not on this machine, got 's3a://bucket/my job'"):
        bs.write(changes, format="noop", checkpoint="s3a://bucket/my job")
    origin = origin_of(changes)
    assert origin is not None
    job = origin.job
    with CheckpointGuard(str(tmp_path / "old"), job) as guard:
        assert guard.query == str(tmp_path / "old" / "query")
    (tmp_path / "old" / "betimes.json").write_text('\n{"identity": "{}", "ended": null}\n')
    with pytest.raises(CheckpointError, match="another version of betimes"):
        bs.write(changes, format="noop", checkpoint=str(tmp_path / "old"))


def test_sinks_that_are_not_ours(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """Whichever of the sinks it is; and nothing of the sink is touched."""
    for sink in ("path", "current", "late", "rejected"):
        (tmp_path / sink / "batch=0").mkdir(parents=True)
        options: Any = {"path": str(tmp_path / f"empty-{sink}")} | {sink: str(tmp_path / sink)}
        for _ in range(2):
            with pytest.raises(OptionError, match=f"{sink} belongs to another job"):
                bs.write(detected(read(spark, source)), checkpoint=str(tmp_path / "c"), **options)
    out = str(tmp_path / "out")
    with bs.write(detected(read(spark, source)), out, checkpoint=str(tmp_path / "one")) as run:
        with pytest.raises(bs.BusyError, match="another run is using the sink"):
            bs.write(detected(read(spark, source)), out, checkpoint=str(tmp_path / "two"))
        run.query.processAllAvailable()
    with pytest.raises(OptionError, match="belongs to another job"):
        bs.write(detected(read(spark, source)), out, checkpoint=str(tmp_path / "two"))
    with bs.write(detected(read(spark, source)), out, checkpoint=str(tmp_path / "one")) as run:
        run.finish()
    assert spark.read.parquet(out).count() > 0


def test_a_detector_that_raises_then_another_job_then_the_end(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """All on one checkpoint: a run that failed leaves it free and as it was."""
    events = read(spark, source)
    fragile = Hierarchy(clock="ball")
    fragile.add(Fragile, on="hit", emits="broken", by="key")
    checkpoint = str(tmp_path / "checkpoint")
    changes = detected(events, fragile, retention=0)  # so that nothing can repair it
    run = bs.write(changes, format="noop", checkpoint=checkpoint)
    with pytest.raises(bs.RunError, match=r"(?s)Fragile.*too strong"):
        run.wait(60)
    with pytest.raises(
        CheckpointError,
        match=r"(?s)different settings:.*detector 'Fragile' is gone.*another checkpoint=",
    ):
        bs.write(detected(events), format="noop", checkpoint=checkpoint)
    going_on = detected(events, fragile, retention=0, errors="skip")
    with bs.write(going_on, format="noop", checkpoint=checkpoint, available_now=True) as run:
        run.finish()
    with pytest.raises(StreamEndedError, match=r"was finished with batch 1.*new checkpoint="):
        bs.write(going_on, format="noop", checkpoint=checkpoint)


def test_rows_that_are_no_events_are_rejected_rows(spark: SparkSession) -> None:
    rows = stream(50).to_pylist()
    rows[7]["ts"], rows[8]["type"] = None, None
    table = pa.Table.from_pylist(rows)
    changes = bs.rejected(detected(spark.createDataFrame(table)))
    without_time, without_type = sorted(changes.collect(), key=lambda row: row.seq)
    assert (without_time.ts, without_type.ts) == (None, rows[8]["ts"])
    assert "time" in without_time.cause
    assert "type" in without_type.cause
    assert json.loads(without_time.payload) == rows[7]
