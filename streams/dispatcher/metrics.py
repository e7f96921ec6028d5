"""The dispatcher's metrics, over all partitions that this process owns."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

ATTEMPTS = Counter("tidegate_dispatcher_attempts", "Runs begun", ["type"])
RETRIES = Counter(
    "tidegate_dispatcher_retries", "Failed, lost and returned runs that are tried again", ["type"]
)
ENDED = Counter(
    "tidegate_dispatcher_jobs_ended", "Jobs that ended or wait for a person", ["type", "status"]
)
DEAD_LETTERS = Counter(
    "tidegate_dispatcher_dead_letters", "Jobs and promised events sent to dlq", ["reason"]
)
LEASES_LOST = Counter("tidegate_dispatcher_leases_lost", "Leases taken back", ["reason"])
TWINS = Counter("tidegate_dispatcher_twins", "Events and commands that were carried out before")
DECISIONS = Counter(
    "tidegate_dispatcher_decisions",
    "Commands of people that were answered, by what became of them",
    ["verb", "outcome"],
)
UNROUTED = Counter("tidegate_dispatcher_unrouted_events", "Events that no route matches")
PROMISED = Counter(
    "tidegate_dispatcher_promised_events",
    "Events without a route here that their ingress had: start the dispatcher with that route",
)
EVENT_CANCELS = Counter(
    "tidegate_dispatcher_event_cancels", "Jobs that an event ended, or asked to stop", ["type"]
)
CANCELS_WITHOUT_VALUE = Counter(
    "tidegate_dispatcher_cancels_without_value",
    "Events that cancelled nothing because they lack what their route compares",
)
SUPERSEDED = Counter(
    "tidegate_dispatcher_superseded_jobs", "Jobs that ended because another one runs", ["type"]
)
EXPIRED = Counter(
    "tidegate_dispatcher_expired_jobs", "Jobs that ended because they had not begun", ["type"]
)
FLOW_WITHOUT_VALUE = Counter(
    "tidegate_dispatcher_flow_without_value",
    "Jobs that flow control left alone because they lack what it compares",
    ["type"],
)
STALE = Counter(
    "tidegate_dispatcher_stale_commands",
    "Commands that came too late for their job, lease or wait",
    ["kind"],
)
TIMERS_LOST = Counter(
    "tidegate_dispatcher_lost_timers", "Scheduled jobs that were woken without their timer"
)
BROUGHT_BACK = Counter(
    "tidegate_dispatcher_jobs_brought_back", "Dead jobs whose type is handled again"
)
SCHEDULES = Counter(
    "tidegate_dispatcher_schedule_times",
    "Times of schedules that came, by what became of them",
    ["outcome"],
)
SCHEDULE_LATENESS = Histogram(
    "tidegate_dispatcher_schedule_lateness_seconds",
    "How much later than its time the job of a schedule was made",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600),
)
READY = Gauge("tidegate_dispatcher_ready_jobs", "Jobs that wait for a slot", ["partition"])
OLDEST = Gauge(
    "tidegate_dispatcher_oldest_ready_seconds", "Age of the longest waiting job", ["partition"]
)
RUNNING = Gauge("tidegate_dispatcher_running_jobs", "Living leases", ["partition"])
POOL = Gauge(
    "tidegate_dispatcher_pool_jobs",
    "Jobs of a pool that run, or wait for nothing but a worker",
    ["partition", "pool"],
)
CIRCUITS = Gauge(
    "tidegate_dispatcher_open_circuits", "Tools whose circuit is not closed", ["partition"]
)
PERMITS_HELD = Gauge(
    "tidegate_dispatcher_permits_held",
    "Permits of a shared limit that the partition holds",
    ["partition", "limit"],
)
PERMITS_WANTED = Gauge(
    "tidegate_dispatcher_permits_wanted",
    "Permits of a shared limit that the partition wants to hold",
    ["partition", "limit"],
)
HELD = Gauge(
    "tidegate_dispatcher_held_jobs",
    "Jobs that no lease can be made for",
    ["partition", "pool", "reason"],
)


_MOST_TYPES = 1_000
_types = set[str]()


def of_type(type_: str) -> str:
    """The label of a job type: `other` beyond the first 1,000.

    Runs ask for jobs of whatever types they like, and each label is kept as long as the process.
    """
    if type_ not in _types:
        if len(_types) >= _MOST_TYPES:
            return "other"
        _types.add(type_)
    return type_


def forget_partition(partition: int, pools: Iterable[str]) -> None:
    """Drop a partition's gauges, because another process owns the partition now."""
    for gauge in (READY, OLDEST, RUNNING):
        gauge.remove(str(partition))
    for pool in pools:
        POOL.remove(str(partition), pool)
