"""Whether two commits give the same rows: `python -m benchmarks.recorded --against REV`.

A fixed set of jobs (`jobs.py`) runs on the library of each commit, in separate processes. Each job
records every change row with all of its columns, and the readings that do not depend on measured
time. The table says for each job whether both recordings are identical, or where they first differ.
The exit code is 1 if any job differs.

`python -m benchmarks.recorded --to FOLDER` only records: it runs the jobs on the library that
`import betimes` finds, and writes a file of JSON lines per job.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.recorded.jobs import Row, all_jobs
from benchmarks.revisions import checked_out, run_module


def write(folder: Path, only: str) -> None:
    """Run the jobs whose names contain `only`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, job in all_jobs().items():
        if only in name:
            rows = (json.dumps(row, sort_keys=True) + "\n" for row in job.run())
            with (folder / file_of(name)).open("w", encoding="utf-8") as file:
                file.writelines(rows)


def file_of(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") + ".jsonl"


def difference(old: Sequence[Row], new: Sequence[Row]) -> str | None:
    """Where two recordings first differ and how many rows do, or None."""
    pairs = list(zip_longest(old, new))
    differing = [place for place, (a, b) in enumerate(pairs) if a != b]
    if not differing:
        return None
    place = differing[0]
    before, after = pairs[place]
    if before is None or after is None:
        what = f"only the {'old' if after is None else 'new'} recording has {before or after}"
    else:
        keys = sorted(before.keys() | after.keys())
        changed = [k for k in keys if before.get(k) != after.get(k)]
        what = ", ".join(f"{k}: {before.get(k)!r} -> {after.get(k)!r}" for k in changed)
    return f"{len(differing):,} of {len(pairs):,} rows; first row {place + 1}: {what}"


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def compare(revision: str, only: str) -> bool:
    """Record both commits, print the table; whether all jobs agree."""
    table = Table("job", "rows", "verdict", title=f"{revision} and this tree", title_justify="left")
    with tempfile.TemporaryDirectory(prefix="betimes-recorded-") as folder:
        old, new = Path(folder) / "old", Path(folder) / "new"
        with checked_out(revision) as tree:
            run_module("benchmarks.recorded", "--to", str(old), "--only", only, tree=tree)
        run_module("benchmarks.recorded", "--to", str(new), "--only", only)
        found = {}
        for name in all_jobs():
            if only in name:
                rows = [read(side / file_of(name)) for side in (old, new)]
                found[name] = difference(*rows)
                verdict = f"[red]{found[name]}" if found[name] else "identical"
                table.add_row(name, f"{len(rows[1]):,}", verdict)
    Console().print(table)
    differ = sum(each is not None for each in found.values())
    print(f"{len(found)} jobs: {len(found) - differ} identical, {differ} differ")
    return differ == 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recorded", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--against", metavar="REV", help="the commit to compare with")
    what.add_argument("--to", type=Path, metavar="FOLDER", help="only record, into a folder")
    parser.add_argument("--only", default="", metavar="TEXT", help="jobs with this in their name")
    options = parser.parse_args(arguments)
    if options.to is not None:
        write(options.to, options.only)
        return 0
    return 0 if compare(options.against, options.only) else 1


if __name__ == "__main__":
    sys.exit(main())
