"""The engine of a slot: a logged host, and what it reports about itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from betimes.host import Setup
from betimes.host.log import ALONE, Around, Entry, Fed, Head, LoggedHost
from betimes.spark.job import Job
from betimes.spark.telemetry.readings import Teller


class LiveHost(LoggedHost):
    """The host of a slot."""

    def __init__(self, job: Job, slot: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(self.setup_of(job), job.identity, slot=slot, clock=clock)
        self.adaptive = job.adaptive

    def setup_of(self, job: Job) -> Setup:
        return job.setup


class LiveEngine(LiveHost):
    """The host of a slot, with a report in the changes of every batch."""

    def __init__(self, job: Job, slot: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(job, slot, clock=clock)
        self._teller = Teller(slot, clock)

    def feed(self, head: Head, entry: Entry, around: Around = ALONE) -> Fed:
        """Take a batch that follows what the head says."""
        fed = super().feed(head, entry, around)
        changes = self._teller.told(
            fed.changes, self.engine, rows=entry.seen, busy=self.busy_factor,
            attenuation=entry.attenuation if self.adaptive else None,
        )  # fmt: skip
        return replace(fed, changes=changes)
