"""The keys of a topology file and their types, one model for each kind of mapping in it.

Fields have the file's own units: days, KiB. `build` turns them into the values of `model.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from streams.topology import model

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]

_DAY_MS = 86_400_000


class Shape(BaseModel):
    """A mapping without unknown keys and without conversion of types: `"4"` is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class TopicShape(Shape):
    name: Name
    partitions: Count | None = None
    cleanup: Literal["delete", "compact", "compact,delete"] = "delete"
    retention_days: Positive | None = None
    timestamp: Literal["create", "append"] | None = None
    max_message_kib: Positive | None = None
    compaction_lag_minutes: Positive | None = None


class StoreShape(Shape):
    name: Name
    changelog: str
    kind: Literal["key_value", "window"] = "key_value"


class StageShape(Shape):
    name: Name
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    stores: tuple[StoreShape, ...] = ()


class PriorityShape(Shape):
    name: Name
    head_start_seconds: float


class PoolShape(Shape):
    name: Name


class JobTypeShape(Shape):
    name: Text
    pool: str = "default"
    max_attempts: Count | None = None
    timeout_seconds: Positive | None = None


class MatchShape(Shape):
    source: Text = "*"
    event_type: Text = "*"


class RouteShape(Shape):
    match: MatchShape
    job: Text
    priority: str | None = None


class RateShape(Shape):
    count: Count
    seconds: Positive


class LimitShape(Shape):
    name: Name
    scope: model.LimitScope
    match: Text = "*"
    concurrency: Count | None = None
    rate: RateShape | None = None


class RetentionShape(Shape):
    finished_jobs_days: Positive
    unhandled_hours: Positive


class LeasesShape(Shape):
    term_seconds: Positive
    heartbeat_seconds: Positive
    margin_seconds: Positive


class TopologyShape(Shape):
    partitions: Count
    window_days: Positive
    topics: tuple[TopicShape, ...]
    stages: tuple[StageShape, ...]
    fused: tuple[str, ...] = ()
    priorities: Annotated[tuple[PriorityShape, ...], Field(min_length=1)]
    pools: tuple[PoolShape, ...]
    job_types: tuple[JobTypeShape, ...]
    routes: tuple[RouteShape, ...]
    limits: tuple[LimitShape, ...]
    retention: RetentionShape
    leases: LeasesShape


def build(shape: TopologyShape) -> model.Topology:
    """The values every process reads, times in milliseconds and sizes in bytes."""
    return model.Topology(
        partitions=shape.partitions,
        window_ms=_days(shape.window_days),
        topics={topic.name: _topic(topic, shape.partitions) for topic in shape.topics},
        stages={stage.name: _stage(stage) for stage in shape.stages},
        priorities={p.name: model.Priority(p.name, p.head_start_seconds) for p in shape.priorities},
        pools=tuple(pool.name for pool in shape.pools),
        job_types={t.name: model.JobType(**t.model_dump()) for t in shape.job_types},
        routes=tuple(_route(route, shape.priorities[0].name) for route in shape.routes),
        limits=tuple(_limit(limit) for limit in shape.limits),
        finished_jobs_ms=_days(shape.retention.finished_jobs_days),
        leases=model.LeasePolicy(**shape.leases.model_dump()),
        fused=shape.fused,
        unhandled_ms=_days(shape.retention.unhandled_hours / 24),
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


def _stage(shape: StageShape) -> model.StageDeclaration:
    stores = tuple(model.StoreDeclaration(s.name, s.changelog, s.kind) for s in shape.stores)
    return model.StageDeclaration(shape.name, shape.reads, shape.writes, stores)


def _route(shape: RouteShape, default_priority: str) -> model.Route:
    match = shape.match
    return model.Route(
        match.source, match.event_type, shape.job, shape.priority or default_priority
    )


def _limit(shape: LimitShape) -> model.Limit:
    rate = None if shape.rate is None else model.Rate(shape.rate.count, shape.rate.seconds)
    return model.Limit(shape.name, shape.scope, shape.match, shape.concurrency, rate)
