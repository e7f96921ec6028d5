"""The parts of a topology file that have other keys, units or defaults than `model.py`.

`build` turns a file's values into those of `model.py`: days into milliseconds, KiB into bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from streams.access.permissions import Permission
from streams.topology import model
from streams.topology.breakers import Breaker
from streams.topology.credentials import CredentialDeclaration
from streams.topology.declared import Count, Declared, Name, Positive, Span, Text
from streams.topology.flow_control import FlowControl, PriorityBy
from streams.topology.issuers import IssuerDeclaration
from streams.topology.limits import Limit, MaxQueued
from streams.topology.policies import Policy
from streams.topology.redaction import RedactionRules
from streams.topology.retired import is_retired

_DAY_MS = 86_400_000
_MOST_KIB = 2_097_152
"""Of 2 GiB: Kafka holds `max.message.bytes` in 32 bits."""


@dataclass(frozen=True, slots=True)
class TopicShape(Declared):
    name: Name
    partitions: Count | None = None
    cleanup: model.Cleanup = "delete"
    retention_days: Span | None = None
    timestamp: model.Timestamp | None = None
    max_message_kib: Annotated[Positive, Field(lt=_MOST_KIB)] | None = None
    compaction_lag_minutes: Span | None = None


@dataclass(frozen=True, slots=True)
class PoolShape(Declared):
    name: Name


BY, ELSE = "by", "else"
"""Keys of a route's `priority` that are no values of events."""


def _always(priority: Any) -> Any:
    """A priority that every event's job has, in the form of one that depends on the event."""
    return {ELSE: priority} if isinstance(priority, str) else priority


@dataclass(frozen=True, slots=True)
class RouteShape(FlowControl):
    match: model.Events
    job: Text | None = None
    priority: Annotated[dict[str, str], BeforeValidator(_always)] | None = None
    cancels: model.Cancels | None = None
    draft: bool = False


@dataclass(frozen=True, slots=True)
class RetentionShape(Declared):
    finished_jobs_days: Span
    unhandled_hours: Span
    deliveries_days: Span
    lookback_minutes: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyShape(Declared):
    partitions: Count
    window_days: Span
    topics: tuple[TopicShape, ...]
    stages: tuple[model.StageDeclaration, ...]
    fused: tuple[str, ...] = ()
    priorities: Annotated[tuple[model.Priority, ...], Field(min_length=1)]
    pools: tuple[PoolShape, ...]
    job_types: tuple[model.JobType, ...]
    routes: tuple[RouteShape, ...]
    limits: tuple[Limit, ...]
    retention: RetentionShape
    leases: model.LeasePolicy
    workflows: model.WorkflowBounds
    approvals: tuple[model.ApprovalRule, ...] = ()
    policies: tuple[Policy, ...] = ()
    breakers: tuple[Breaker, ...] = ()
    max_queued: tuple[MaxQueued, ...] = ()
    credentials: tuple[CredentialDeclaration, ...] = ()
    redaction: RedactionRules = field(default_factory=RedactionRules)
    roles: dict[Name, tuple[Permission, ...]] = field(default_factory=dict)
    issuers: tuple[IssuerDeclaration, ...] = ()


def build(shape: TopologyShape) -> model.Topology:
    """The values every process reads, times in milliseconds and sizes in bytes."""
    first = shape.priorities[0].name
    return model.Topology(
        partitions=shape.partitions,
        window_ms=_days(shape.window_days),
        topics={
            topic.name: _topic(topic, shape.partitions)
            for topic in shape.topics
            if not is_retired(topic.name)
        },
        stages={stage.name: stage for stage in shape.stages},
        priorities={priority.name: priority for priority in shape.priorities},
        pools=tuple(pool.name for pool in shape.pools),
        job_types={job.name: job for job in shape.job_types},
        routes=tuple(_route(route, first) for route in shape.routes),
        limits=shape.limits,
        finished_jobs_ms=_days(shape.retention.finished_jobs_days),
        leases=shape.leases,
        fused=shape.fused,
        unhandled_ms=_days(shape.retention.unhandled_hours / 24),
        lookback_ms=_days(shape.retention.lookback_minutes / 1440),
        deliveries_ms=_days(shape.retention.deliveries_days),
        approvals=shape.approvals,
        policies=shape.policies,
        workflows=shape.workflows,
        breakers=shape.breakers,
        max_queued=shape.max_queued,
        credentials={each.name: each for each in shape.credentials},
        redaction=shape.redaction,
        roles=shape.roles,
        issuers={each.name: each for each in shape.issuers},
    )


def _route(shape: RouteShape, first: str) -> model.Route:
    """The route; a priority that depends on the event and has no `else` is refused by the rules."""
    levels = dict(shape.priority or {ELSE: first})
    by, otherwise = levels.pop(BY, ""), levels.pop(ELSE, "")
    return model.Route(
        shape.match.source,
        shape.match.event_type,
        shape.job,
        otherwise,
        shape.cancels,
        shape.draft,
        PriorityBy(by, tuple(levels.items()), otherwise) if by or levels else None,
        **{each.name: getattr(shape, each.name) for each in fields(FlowControl)},
    )


def _days(days: float) -> int:
    return max(1, round(days * _DAY_MS))


def _topic(shape: TopicShape, partitions: int) -> model.Topic:
    kib, days = shape.max_message_kib, shape.retention_days
    lag = shape.compaction_lag_minutes
    return model.Topic(
        name=shape.name,
        partitions=shape.partitions or partitions,
        cleanup=shape.cleanup,
        retention_ms=None if days is None else _days(days),
        # Records that are deleted by their time are deleted by the broker's clock.
        timestamp=shape.timestamp or ("append" if shape.cleanup == "delete" else "create"),
        max_message_bytes=model.MAX_MESSAGE_BYTES if kib is None else round(kib * 1024),
        compaction_lag_ms=None if lag is None else max(1, round(lag * 60_000)),
    )
