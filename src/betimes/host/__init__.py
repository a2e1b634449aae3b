"""The host: one engine that takes and returns tables, with all that a run needs around it."""

from betimes.host.columns import Columns
from betimes.host.host import Host, HostState, Setup
from betimes.host.tally import Tally

__all__ = ["Columns", "Host", "HostState", "Setup", "Tally"]
