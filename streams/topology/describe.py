"""A topology for people (tables) and for programs (one JSON object)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from streams.access.permissions import all_roles, in_order
from streams.topology.flow_control import Batch, Debounce, FlowControl, Rule
from streams.topology.limits import Limit
from streams.topology.model import Route, Topic, Topology
from streams.topology.policies import ATTRIBUTES

_DAY_MS = 86_400_000


def as_json(topology: Topology) -> dict[str, Any]:
    """Every declared value, times in milliseconds, sizes in bytes; lists in the file's order."""
    declared = asdict(topology)
    for named in ("topics", "stages", "priorities", "job_types", "credentials", "issuers"):
        declared[named] = list(declared[named].values())
    for limit, described in zip(topology.limits, declared["limits"], strict=True):
        described["holds"] = holds(limit)
    return declared


def tables(topology: Topology) -> Iterator[Table]:
    """One table each for topics, stages, routes, job types, flow control, limits and the rest."""
    of_effects = (_policies, _approvals)
    of_jobs = (_routes, _job_types, _flow_control, *of_effects, _limits, _max_queued, _breakers)
    of_people = (_roles, _issuers)
    of_secrets = (_credentials, _redaction)
    for section in (_topics, _stages, *of_jobs, *of_secrets, *of_people, _times):
        table = section(topology)
        if not table.rows:
            _row(table, "none")
        yield table


def holds(limit: Limit) -> str:
    """How far a cap reaches: all jobs of a tenant share a partition, but not those of a type."""
    if limit.is_local:
        return "for each matching tenant, overall"
    return "overall" if limit.is_shared else "inside each partition"


def _topics(topology: Topology) -> Table:
    table = _table("Topics", "topic", "partitions", "cleanup", "kept", "time")
    for topic in topology.topics.values():
        time = "broker" if topic.timestamp == "append" else "producer"
        cleanup = topic.cleanup.replace(",", ", ")
        _row(table, topic.name, str(topic.partitions), cleanup, _kept(topic), time)
    return table


def _kept(topic: Topic) -> str:
    if topic.retention_ms is not None:
        return _days(topic.retention_ms)
    return "last value"


def _stages(topology: Topology) -> Table:
    table = _table("Stages", "stage", "reads", "writes", "stores (changelog)")
    for stage in topology.stages.values():
        stores = "\n".join(f"{s.name}, {s.kind} ({s.changelog})" for s in stage.stores)
        _row(table, stage.name, "\n".join(stage.reads), "\n".join(stage.writes), stores)
    return table


def _routes(topology: Topology) -> Table:
    title = "Routes: the first that matches gives an event its job"
    ends = ["cancels"] if any(route.cancels for route in topology.routes) else []
    table = _table(title, "#", "source", "event type", "job", "priority", *ends)
    for number, route in enumerate(topology.routes, 1):
        made = ("none", "-") if route.job is None else (route.job, _priority(route))
        ended = f"{route.cancels.job} by {route.cancels.by}" if route.cancels else "-"
        _row(table, str(number), route.source, route.event_type, *made, *[ended][: len(ends)])
    if not topology.routes:
        _row(table, "-", "none: events are kept without a job")
    return table


def _job_types(topology: Topology) -> Table:
    title = "Job types: the others run in the default pool under their handler's policy"
    waits = ["waits for"] if topology.waited_for else []
    table = _table(title, "job type", "pool", "max attempts", "timeout", *waits)
    for job in topology.job_types.values():
        attempts = "handler's" if job.max_attempts is None else str(job.max_attempts)
        timeout = "handler's" if job.timeout_seconds is None else f"{job.timeout_seconds:g} s"
        awaited = "\n".join(f"{e.source} {e.event_type}" for e in job.waits_for) or "-"
        _row(table, job.name, job.pool, attempts, timeout, *[awaited][: len(waits)])
    return table


def _priority(route: Route) -> str:
    chosen = route.priority_by
    if chosen is None:
        return route.priority
    listed = ", ".join(f"{value} {name}" for value, name in chosen.levels)
    return f"by {chosen.by}: {listed}, else {chosen.otherwise}"


def _flow_control(topology: Topology) -> Table:
    table = _table("Flow control: which jobs run, and when", "jobs", "rule", "by", "what")
    declared: list[tuple[str, FlowControl]] = [
        *((f"{r.job} of {r.source} {r.event_type}", r) for r in topology.routes),
        *topology.job_types.items(),
    ]
    for jobs, found in declared:
        rule = found.rule
        if rule is not None:
            name = type(rule).__name__.lower()
            _row(table, jobs, name, rule.by or "tenant and type", _meaning(rule))
        if found.expires_after_seconds is not None:
            _row(table, jobs, "expires", "-", f"after {found.expires_after_seconds:g} s")
    return table


def _meaning(rule: Rule) -> str:
    match rule:
        case Debounce(seconds, None):
            return f"the newest runs after {seconds:g} s without another"
        case Debounce(seconds, most):
            return f"the newest runs after {seconds:g} s without another, {most:g} s at most"
        case Batch(size, seconds):
            return f"one job for {size} events, after {seconds:g} s for fewer"
        case _:
            return f"keeps {rule.keep}"


def _policies(topology: Topology) -> Table:
    title = "Policies: the first that matches says whether an effect begins"
    table = _table(title, "policy", "decision", *(each.replace("_", " ") for each in ATTRIBUTES))
    for policy in topology.policies:
        _row(table, policy.name, policy.decision, *(getattr(policy, each) for each in ATTRIBUTES))
    return table


def _approvals(topology: Topology) -> Table:
    table = _table("Approvals: these effects wait for a person", "tool", "tenant", "job type")
    for rule in topology.approvals:
        _row(table, rule.tool, rule.tenant, rule.job_type)
    for job in topology.job_types.values():
        if job.draft:
            _row(table, "*", "*", f"{job.name} (draft)")
    for route in topology.routes:
        if route.draft:
            _row(table, "*", "*", f"{route.job} of {route.source} {route.event_type} (draft)")
    return table


def _limits(topology: Topology) -> Table:
    table = _table("Limits", "limit", "scope", "match", "running at once", "starts", "holds")
    for limit in topology.limits:
        scope = f"{limit.scope} {limit.by or ''}".strip() + (" per tenant" if limit.per else "")
        running = "-" if limit.concurrency is None else str(limit.concurrency)
        starts = "-" if limit.rate is None else f"{limit.rate}, {limit.most_at_once} at once"
        _row(table, limit.name, scope, limit.match, running, starts, holds(limit))
    return table


def _breakers(topology: Topology) -> Table:
    title = "Circuit breakers: tools are left alone inside each partition"
    table = _table(title, "tool", "after failed calls", "for")
    for breaker in topology.breakers:
        failures = f"{breaker.failures} in {breaker.seconds:g} s"
        _row(table, breaker.tool, failures, f"{breaker.open_seconds:g} s")
    return table


def _max_queued(topology: Topology) -> Table:
    table = _table(
        "Backlog: with so many waiting jobs new ones are refused", "scope", "match", "jobs"
    )
    for cap in topology.max_queued:
        _row(table, cap.scope, "-" if cap.scope == "global" else cap.match, f"{cap.jobs:,}")
    return table


def _credentials(topology: Topology) -> Table:
    title = "Credentials: handlers get these by name"
    table = _table(title, "credential", "provider", "reference", "tenants", "job types")
    for each in topology.credentials.values():
        scope = ", ".join(each.tenants), ", ".join(each.job_types)
        _row(table, each.name, each.provider, each.reference, *scope)
    return table


def _redaction(topology: Topology) -> Table:
    table = _table("Redaction: no worker lets these out", "by", "rule")
    rules = topology.redaction
    for by, found in (
        ("preset", rules.presets),
        ("field", rules.fields),
        ("pattern", rules.patterns),
    ):
        for rule in found:
            _row(table, by, rule)
    return table


def _roles(topology: Topology) -> Table:
    table = _table("Roles of people and tokens", "role", "permissions")
    for name, permissions in all_roles(topology.roles).items():
        _row(table, name, ", ".join(in_order(permissions)))
    return table


def _issuers(topology: Topology) -> Table:
    table = _table("Sign-in", "issuer", "URL", "client", "role of group", "tenants of group")
    for each in topology.issuers.values():
        roles = "\n".join(f"{role} of {group}" for group, role in each.roles.items())
        tenants = "\n".join(f"{', '.join(t)} of {group}" for group, t in each.tenants.items())
        _row(table, each.name, each.issuer, each.client_id, roles, tenants or "all")
    return table


def _times(topology: Topology) -> Table:
    table = _table("Times, priorities, pools", "setting", "value")
    _row(table, "`tidegate pipeline` runs as one", ", ".join(topology.fused) or "nothing")
    _row(table, "deduplication window", _days(topology.window_ms))
    _row(table, "finished jobs kept", _days(topology.finished_jobs_ms))
    _row(table, "deliveries kept", _days(topology.deliveries_ms))
    _row(table, "a job without a worker waits", f"{topology.unhandled_ms / 3_600_000:g} h")
    leases = topology.leases
    _row(table, "lease term", f"{leases.term_seconds:g} s")
    _row(table, "heartbeat every", f"{leases.heartbeat_seconds:g} s")
    _row(table, "margin before its end", f"{leases.margin_seconds:g} s")
    _row(table, "jobs that one call gathers", f"{topology.workflows.most_children:,} at most")
    _row(table, "levels of jobs in a workflow", f"{topology.workflows.most_levels:,} at most")
    for priority in topology.priorities.values():
        _row(table, f"priority {priority.name}", f"{priority.head_start_seconds:+g} s")
    _row(table, "pools", ", ".join(topology.pools))
    return table


def _table(title: str, name: str, *columns: str) -> Table:
    """A table for 80 characters, whose first column of names stays whole on narrower terminals."""
    table = Table(
        title=f"\n{title}", title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column(name, no_wrap=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _row(table: Table, *cells: str) -> None:
    # A glob such as `ticket.[ab]*` is text, not rich's markup.
    table.add_row(*map(escape, cells))


def _days(milliseconds: int) -> str:
    count = milliseconds / _DAY_MS
    return f"{count:g} day" if count == 1 else f"{count:g} days"
