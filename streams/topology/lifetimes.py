"""The rules on how long a topic keeps its records, and by which clock."""

from __future__ import annotations

from collections.abc import Iterator

from streams.topology.model import Topic, Topology
from streams.topology.problems import Problem, problem

_DAY_MS = 86_400_000
_APPEND = {
    "events.received": "event time is the broker's: one wrong clock would move every tenant's "
    "window",
    "jobs.commands": "a command's time is the broker's: one wrong clock would have a submission "
    "of long ago run again",
    "jobs.types": "of two applications with one type, the newest by the broker's clock counts",
    "quarantine": "a sender's body is kept by the broker's time: one wrong clock would delete it",
    "clock": "stages learn the broker's time from it",
}
"""Topics whose records' time decides something."""
_EVENT_TIMED = frozenset({"events", "duplicates"})
"""Topics whose records have the time at which the broker accepted their event."""

Found = Iterator[Problem]


def lifetimes(topology: Topology) -> Found:
    """The records that must be kept at least as long as something else."""
    yield from outlives(
        topology,
        "events.received",
        2 * topology.window_ms,
        ("window_days",),
        f"twice the window of {days(topology.window_ms)} days",
    )
    yield from _events(topology)
    for topic in ("dlq", "events.received", "quarantine"):
        if topic in topology.topics:
            yield from outlives(
                topology,
                "payloads",
                topology.topics[topic].retention_ms or 0,
                _days_of(topic),
                f"the retention of {topic}, whose records refer to payloads",
            )
    yield from outlives(
        topology,
        "payloads",
        topology.deliveries_ms,
        ("retention", "deliveries_days"),
        f"the {days(topology.deliveries_ms)} days for which outgoing deliveries refer to payloads",
    )
    if topology.finished_jobs_ms < topology.window_ms:
        yield problem(
            f"finished jobs are kept {days(topology.finished_jobs_ms)} days, less than the window "
            f"of {days(topology.window_ms)} days: a repeated submission would run a purged job "
            "again; set finished_jobs_days to the window or more",
            ("retention", "finished_jobs_days"),
            ("window_days",),
        )
    dlq = topology.topics.get("dlq")
    if dlq and topology.finished_jobs_ms < (dlq.retention_ms or 0):
        yield problem(
            f"finished jobs are kept {days(topology.finished_jobs_ms)} days, less than dlq's "
            f"{days(dlq.retention_ms or 0)}: a dead letter would outlive the job it can replay; "
            "set finished_jobs_days to dlq's retention_days or more",
            ("retention", "finished_jobs_days"),
            _days_of("dlq"),
        )


def _events(topology: Topology) -> Found:
    """Events keep their own time, so they are already old if dedup forwards them late."""
    read = {name for stage in topology.stages.values() for name in stage.reads}
    timed = [topology.topics[n] for n in sorted(_EVENT_TIMED & read & topology.topics.keys())]
    received, commands = (topology.topics.get(n) for n in ("events.received", "jobs.commands"))
    for topic in timed if received and commands else ():
        dedup_ms, dispatcher_ms = _kept_ms(received), _kept_ms(commands)
        yield from outlives(
            topology,
            topic.name,
            dedup_ms + dispatcher_ms,
            _days_of("events.received"),
            f"the {days(dedup_ms)} of events.received, by which dedup may lag, and the "
            f"{days(dispatcher_ms)} of jobs.commands, by which the dispatcher may: an event would "
            "be deleted before it has its job",
        )
    if timed:
        yield from _jobs_outlive(topology, max(timed, key=lambda t: (_kept_ms(t), t.name)))


def _jobs_outlive(topology: Topology, events: Topic) -> Found:
    """A job stops duplicates of its event, so it must live as long as any of them can be read."""
    readable_ms = _kept_ms(events) + events.segment_ms
    if topology.finished_jobs_ms < readable_ms:
        yield problem(
            f"finished jobs are kept {days(topology.finished_jobs_ms)} days, but {events.name} can "
            f"be read for {days(readable_ms)}: read again after its job was purged, an event would "
            f"have another; set finished_jobs_days to {days(readable_ms)} or more",
            ("retention", "finished_jobs_days"),
            _days_of(events.name),
        )


def _kept_ms(topic: Topic | None) -> int:
    return 0 if topic is None or topic.retention_ms is None else topic.retention_ms


def outlives(
    topology: Topology, topic: str, least_ms: int, other: tuple[str, ...], why: str
) -> Found:
    found = topology.topics.get(topic)
    if found and found.retention_ms is not None and found.retention_ms < least_ms:
        yield problem(
            f"{topic} keeps {days(found.retention_ms)} days, less than {why}; "
            f"set retention_days of {topic} to {days(least_ms)} or more",
            _days_of(topic),
            other,
        )


def retention(topology: Topology) -> Found:
    """A topic that deletes says how long it keeps records; one that keeps for ever says nothing."""
    for topic in topology.topics.values():
        path = _days_of(topic.name)
        if "delete" in topic.cleanup and topic.retention_ms is None:
            yield problem(f"cleanup {topic.cleanup} needs a time; set retention_days", path)
        if topic.compaction_lag_ms is not None and "compact" not in topic.cleanup:
            yield problem(
                f"cleanup {topic.cleanup} compacts nothing; remove compaction_lag_minutes",
                ("topics", topic.name, "compaction_lag_minutes"),
            )
        if topic.cleanup == "compact" and topic.retention_ms is not None:
            yield problem(
                "a compacted topic keeps the last value of each key for ever; remove "
                "retention_days, or set cleanup to 'compact,delete'",
                path,
                ("topics", topic.name, "cleanup"),
            )


_STATES = (
    "deliveries",
    "deliveries.endpoints",
    "jobs",
    "jobs.backlog",
    "jobs.held",
    "jobs.types",
    "replays",
    "tenants",
)
_LOGS = (
    "audit",
    "deliveries.attempts",
    "deliveries.commands",
    "dlq",
    "events",
    "events.received",
    "jobs.commands",
    "jobs.live",
    "limits.claims",
    "limits.grants",
    "rejections",
    "schedule",
)


def cleanups(topology: Topology) -> Found:
    """States stay for ever, and of records that share a key each one stays for its time."""
    for names, wanted, why in (
        (_STATES, "compact", "holds the newest state of each key, which no time may delete"),
        (_LOGS, "delete", "holds many records of a key, which compaction would delete"),
    ):
        for topic in filter(None, map(topology.topics.get, names)):
            if topic.cleanup != wanted:
                yield problem(
                    f"{topic.name} {why}; set cleanup to {wanted!r}",
                    ("topics", topic.name, "cleanup"),
                )


def clocks(topology: Topology) -> Found:
    """Every decision by the time of a record must use the broker's clock."""
    changelogs = {s.changelog for stage in topology.stages.values() for s in stage.stores}
    for topic in topology.topics.values():
        path = ("topics", topic.name, "timestamp")
        why = _APPEND.get(topic.name)
        if why is not None and topic.timestamp != "append":
            yield problem(f"{why}; set timestamp: append", path)
        elif (
            topic.cleanup == "delete"
            and topic.timestamp != "append"
            and topic.name not in changelogs | _EVENT_TIMED
        ):
            yield problem(
                "its retention would run on the clocks of whoever writes it: one that is wrong has "
                "records deleted at once, or never; set timestamp: append",
                path,
            )


def _days_of(topic: str) -> tuple[str, ...]:
    return ("topics", topic, "retention_days")


def days(milliseconds: int) -> str:
    return f"{milliseconds / _DAY_MS:g}"
