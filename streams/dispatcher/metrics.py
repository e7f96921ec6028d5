"""What the dispatcher counts; of all partitions that this process owns."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

ATTEMPTS = Counter("tidegate_dispatcher_attempts", "Runs begun", ["type"])
RETRIES = Counter("tidegate_dispatcher_retries", "Failed attempts that are tried again", ["type"])
ENDED = Counter("tidegate_dispatcher_jobs_ended", "Jobs that ended", ["type", "status"])
DEAD_LETTERS = Counter("tidegate_dispatcher_dead_letters", "Jobs sent to dlq", ["reason"])
LEASES_LOST = Counter("tidegate_dispatcher_leases_lost", "Leases taken back", ["reason"])
TWINS = Counter("tidegate_dispatcher_twins", "Events and submissions of a job that is known")
UNROUTED = Counter("tidegate_dispatcher_unrouted_events", "Events that no route matches")
STALE = Counter("tidegate_dispatcher_stale_commands", "Commands of a lease that is over", ["kind"])
PAUSED = Gauge(
    "tidegate_dispatcher_leasing_paused", "Pools whose work topic takes no lease",
    ["partition", "pool"],
)  # fmt: skip
READY = Gauge("tidegate_dispatcher_ready_jobs", "Jobs that wait for a slot", ["partition"])
OLDEST = Gauge(
    "tidegate_dispatcher_oldest_ready_seconds", "Age of the longest waiting job", ["partition"]
)
RUNNING = Gauge("tidegate_dispatcher_running_jobs", "Living leases", ["partition"])


def forget_partition(partition: int) -> None:
    """The partition is another process's now: what is shown of it is not its state any more."""
    for gauge in (READY, OLDEST, RUNNING):
        gauge.remove(str(partition))
