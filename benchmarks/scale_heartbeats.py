"""What workers' heartbeats cost a cluster, counted from records as they are encoded.

Before: a full heartbeat of each worker to each partition every five seconds. Now: a lean one, every
five seconds, to partitions that have leases or credits of the worker, which are no more than it has
slots; and a full one to each partition every minute. Bytes are of keys and values; what Kafka adds
and how often it is replicated is the same for both.
"""

from __future__ import annotations

from harness import Result

from streams.serde.codec import COMMAND
from streams.serde.ids import new_id
from streams.serde.records import Command, Handler, Heartbeat, HeldLease
from streams.topology.model import LeasePolicy

WORKERS, PARTITIONS, SLOTS = 1_000, 64, 20
EVERY = LeasePolicy().heartbeat_seconds
FULL_EVERY = 60.0
_DAY = 86_400
_HANDLERS = tuple(
    Handler(type_, 5, (10.0, 30.0, 120.0, 600.0), 300)
    for type_ in ("draft_reply", "refund", "summarize")
)


def heartbeats() -> list[tuple[Result, float | None]]:
    """Records a second and bytes a day, before and now; each slot runs a lease."""
    name = f"{WORKERS:,} workers x {PARTITIONS} partitions"
    spread = min(SLOTS, PARTITIONS)
    before = WORKERS * PARTITIONS / EVERY
    before_bytes = before * size(SLOTS / PARTITIONS, full=True)
    lean, full = WORKERS * spread / EVERY, WORKERS * PARTITIONS / FULL_EVERY
    now_bytes = lean * size(SLOTS / spread, full=False) + full * size(SLOTS / PARTITIONS, full=True)
    return [
        (Result(f"{name}, before", "heartbeats", before, "records/s"), None),
        (Result(f"{name}, before", "heartbeats", before_bytes * _DAY / 1e9, "GB/day"), None),
        (Result(name, "heartbeats", lean + full, "records/s"), before / 2),
        (Result(name, "heartbeats", now_bytes * _DAY / 1e9, "GB/day"), before_bytes * _DAY / 3e9),
        (Result(name, "to one partition", (lean + full) / PARTITIONS, "records/s"), None),
    ]


def size(leases: float, *, full: bool) -> float:
    """Bytes of a heartbeat that lists so many leases on average."""
    none, one = encoded(0, full=full), encoded(1, full=full)
    return none + leases * (one - none)


def encoded(leases: int, *, full: bool) -> int:
    worker = f"support-worker-7d9f8c6b5-x2x4z/{new_id('boot')}"
    held = tuple(HeldLease("job_" + "0" * 26, 1) for _ in range(leases))
    body = Heartbeat(
        worker, "default", 700, 1, held, _HANDLERS if full else (), received=5_000, lean=not full
    )
    command = Command(new_id("cmd"), "", "", 0, 1_790_000_000_000, body)
    return len(worker) + len(COMMAND.encode(command))
