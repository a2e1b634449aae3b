"""Worker processes on this machine: work goes out as bytes, replies come back as bytes.

>>> from betimes.parallel import Pool
>>> with Pool(bytes.upper, workers=1, name="example") as pool:
...     list(pool.map([b"to", b"and fro"]))
[b'TO', b'AND FRO']
"""

from betimes.parallel.pool import Pool, Reply, WorkerError
from betimes.parallel.shipping import ShippingError, can_ship, culprit, needs_script, packed
from betimes.parallel.threads import ThreadPool, free_threaded

__all__ = [
    "Pool",
    "Reply",
    "ShippingError",
    "ThreadPool",
    "WorkerError",
    "can_ship",
    "culprit",
    "free_threaded",
    "needs_script",
    "packed",
]
