"""A topology for people (tables) and for programs (one JSON object)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from streams.topology.model import Limit, Topic, Topology

_DAY_MS = 86_400_000


def as_json(topology: Topology) -> dict[str, Any]:
    """Every declared value, times in milliseconds, sizes in bytes; lists in the file's order."""
    declared = asdict(topology)
    for named in ("topics", "stages", "priorities", "job_types"):
        declared[named] = list(declared[named].values())
    for limit, described in zip(topology.limits, declared["limits"], strict=True):
        described["holds"] = holds(limit)
    return declared


def tables(topology: Topology) -> Iterator[Table]:
    """One table each for topics, stages, routes, job types, limits and the rest."""
    yield _topics(topology)
    yield _stages(topology)
    yield _routes(topology)
    yield _job_types(topology)
    yield _limits(topology)
    yield _times(topology)


def holds(limit: Limit) -> str:
    """How far a cap reaches: all jobs of a tenant share a partition, those of a type do not."""
    if limit.scope == "tenant":
        return "for each matching tenant, overall"
    return "inside each partition"


def _topics(topology: Topology) -> Table:
    table = Table("topic", "partitions", "keyed by", "cleanup", "kept", "time", title="Topics")
    for topic in topology.topics.values():
        keyed = "worker's partition" if topic.addressed else "tenant"
        time = "broker's (append)" if topic.timestamp == "append" else "producer's"
        _row(table, topic.name, str(topic.partitions), keyed, topic.cleanup, _kept(topic), time)
    return table


def _kept(topic: Topic) -> str:
    if topic.retention_ms is not None:
        return _days(topic.retention_ms)
    return "last value of each key"


def _stages(topology: Topology) -> Table:
    table = Table("stage", "reads", "writes", "stores (changelog)", title="Stages", show_lines=True)
    for stage in topology.stages.values():
        stores = "\n".join(f"{s.name}, {s.kind} ({s.changelog})" for s in stage.stores)
        _row(table, stage.name, "\n".join(stage.reads), "\n".join(stage.writes), stores)
    return table


def _routes(topology: Topology) -> Table:
    title = "Routes: the first that matches gives an event its job"
    table = Table("#", "source", "event type", "job", "priority", title=title)
    for number, route in enumerate(topology.routes, 1):
        _row(table, str(number), route.source, route.event_type, route.job, route.priority)
    if not topology.routes:
        _row(table, "-", "none: events are kept without a job")
    return table


def _job_types(topology: Topology) -> Table:
    title = "Job types: the others run in the default pool under their handler's policy"
    table = Table("job type", "pool", "max attempts", "timeout", title=title)
    for job in topology.job_types.values():
        attempts = "handler's" if job.max_attempts is None else str(job.max_attempts)
        timeout = "handler's" if job.timeout_seconds is None else f"{job.timeout_seconds:g} s"
        _row(table, job.name, job.pool, attempts, timeout)
    return table


def _limits(topology: Topology) -> Table:
    table = Table("limit", "scope", "match", "running at once", "holds", title="Limits")
    for limit in topology.limits:
        _row(table, limit.name, limit.scope, limit.match, str(limit.concurrency), holds(limit))
    return table


def _times(topology: Topology) -> Table:
    table = Table("setting", "value", title="Times, priorities, pools")
    _row(table, "deduplication window", _days(topology.window_ms))
    _row(table, "finished jobs kept", _days(topology.finished_jobs_ms))
    leases = topology.leases
    _row(table, "lease term", f"{leases.term_seconds:g} s")
    _row(table, "heartbeat every", f"{leases.heartbeat_seconds:g} s")
    _row(table, "margin before its end", f"{leases.margin_seconds:g} s")
    for priority in topology.priorities.values():
        _row(table, f"priority {priority.name}", f"{priority.head_start_seconds:+g} s")
    _row(table, "pools", ", ".join(topology.pools))
    return table


def _row(table: Table, *cells: str) -> None:
    # A glob such as `ticket.[ab]*` is text, not rich's markup.
    table.add_row(*map(escape, cells))


def _days(milliseconds: int) -> str:
    """`14 days`."""
    count = milliseconds / _DAY_MS
    return f"{count:g} day" if count == 1 else f"{count:g} days"
