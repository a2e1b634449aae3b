"""The engine of a slot: a logged host, and what it reports about itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from betimes.host.log import ALONE, Around, Entry, Fed, Head, LoggedHost
from betimes.spark.job import Job
from betimes.spark.telemetry.readings import Teller


class LiveEngine(LoggedHost):
    """The host of a slot, with a report in the changes of every batch."""

    def __init__(self, job: Job, slot: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(job.setup, job.identity, slot=slot, clock=clock)
        self._teller = Teller(slot, clock)

    @classmethod
    def rebuilt(
        cls,
        job: Job,
        slot: int,
        head: Head,
        log: Iterable[bytes],
        volumes: Callable[[bytes], bytes | None],
    ) -> LiveEngine:
        """The engine that the state store describes."""
        live = cls(job, slot)
        live.rebuild(log, head.token, volumes)
        return live

    def feed(self, head: Head, entry: Entry, around: Around = ALONE) -> Fed:
        """Take a batch that follows what the head says."""
        fed = super().feed(head, entry, around)
        changes = self._teller.told(fed.changes, self.engine, entry.seen, self.busy_factor)
        return replace(fed, changes=changes)
