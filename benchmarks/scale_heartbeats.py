"""What workers' heartbeats cost a cluster, counted from records as they are encoded.

A heartbeat goes every five seconds to partitions that have leases or credits of the worker, which
are no more than it has slots, and every minute to the others. Bytes are of keys and values, without
what Kafka adds and without replicas.
"""

from __future__ import annotations

from harness import Result

from streams.serde.codec import COMMAND
from streams.serde.ids import new_id
from streams.serde.records import Command, Handler, Heartbeat, HeldLease
from streams.topology.model import LeasePolicy

WORKERS, PARTITIONS, SLOTS = 1_000, 64, 20
EVERY = LeasePolicy().heartbeat_seconds
IDLE_EVERY = 60.0
_DAY = 86_400


def heartbeats() -> list[tuple[Result, float | None]]:
    """Records a second and bytes a day; each slot runs a lease of another partition."""
    name = f"{WORKERS:,} workers x {PARTITIONS} partitions"
    busy = WORKERS * SLOTS / EVERY
    idle = WORKERS * (PARTITIONS - SLOTS) / IDLE_EVERY
    return [
        (Result(name, "heartbeats", busy + idle, "records/s"), None),
        (Result(name, "to one partition", (busy + idle) / PARTITIONS, "records/s"), None),
        *(
            (Result(f"{name}, {types} job types", "heartbeats", size * _DAY / 1e9, "GB/day"), None)
            for types in (3, 30)
            for size in [busy * encoded(1, types) + idle * encoded(0, types)]
        ),
    ]


def encoded(leases: int, types: int) -> int:
    """Bytes of a heartbeat."""
    worker = f"support-worker-7d9f8c6b5-x2x4z/{new_id('boot')}"
    held = tuple(HeldLease("job_" + "0" * 26, 1, False) for _ in range(leases))
    handlers = tuple(
        Handler(f"draft_reply_{n}", 5, (10.0, 30.0, 120.0, 600.0), 300) for n in range(types)
    )
    body = Heartbeat(worker, "default", 700, 1, held, handlers, received=5_000, leaving=False)
    command = Command(new_id("cmd"), "", "", 0, 1_790_000_000_000, body)
    return len(worker) + len(COMMAND.encode(command))
