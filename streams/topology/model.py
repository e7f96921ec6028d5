"""The values of `topology.yaml` after loading: every process reads its wiring from them.

The file has most of them as they are here, and pydantic reads them so; `file_format.py` has the
others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field

from streams.access.permissions import Permission
from streams.topology.breakers import Breaker
from streams.topology.by_value import Compared
from streams.topology.credentials import CredentialDeclaration
from streams.topology.declared import Count, Declared, Name, Positive, Text
from streams.topology.flow_control import FlowControl, PriorityBy
from streams.topology.issuers import IssuerDeclaration
from streams.topology.limits import Limit, MaxQueued
from streams.topology.policies import Policy
from streams.topology.redaction import RedactionRules

CHANGELOG_DELETE_RETENTION_MS = 86_400_000
"""`delete.retention.ms` of every compacted topic: how long a tombstone can still be read.

A store on disk that is older than this may have missed deletions (see `runtime/restore.py`).
"""

MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's own default of `max.message.bytes`: 1 MiB plus the overhead of one batch."""

_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000

FUSED = "pipeline"
"""The name of the fused stage's group, process and state."""

LayoutName = Literal["fused", "apart"]
Cleanup = Literal["delete", "compact", "compact,delete"]
Timestamp = Literal["create", "append"]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; `partitions` is the topology's number unless the file gives another."""

    name: str
    partitions: int
    cleanup: Cleanup = "delete"
    retention_ms: int | None = None
    timestamp: Timestamp = "create"
    max_message_bytes: int = MAX_MESSAGE_BYTES
    compaction_lag_ms: int | None = None
    """How soon a replaced or deleted record of a compacted topic leaves the disk, about."""

    @property
    def segment_ms(self) -> int:
        """How long a segment stays open: Kafka deletes and compacts only closed segments.

        So a record of a topic that deletes can be read for that much longer than its retention.
        """
        if self.retention_ms is None:
            return _HOUR_MS
        return min(_DAY_MS, max(_MINUTE_MS, self.retention_ms // 8))


@dataclass(frozen=True, slots=True)
class StoreDeclaration(Declared):
    name: Name
    changelog: str
    kind: Literal["key_value", "window"] = "key_value"


@dataclass(frozen=True, slots=True)
class StageDeclaration(Declared):
    """A stage: its name is also its command, its consumer group and a label of its metrics."""

    name: Name
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    stores: tuple[StoreDeclaration, ...] = ()


@dataclass(frozen=True, slots=True)
class Priority(Declared):
    name: Name
    head_start_seconds: Annotated[float, Field(strict=True)]


@dataclass(frozen=True, slots=True)
class Events(Declared):
    """Globs of a source and an event type."""

    source: Text = "*"
    event_type: Text = "*"


@dataclass(frozen=True, slots=True)
class JobType(FlowControl):
    """Overrides for a job type; None leaves the handler's own policy."""

    name: Text
    pool: str = "default"
    max_attempts: Count | None = None
    timeout_seconds: Positive | None = None
    waits_for: tuple[Events, ...] = ()
    """Events that its handlers wait for; they are kept for waits that begin a little later."""
    draft: bool = False
    """Whether a person approves each effect of its jobs before that begins."""


@dataclass(frozen=True, slots=True)
class Cancels(Declared):
    """Which live jobs an event ends: those of a type whose own event has the same value.

    `by` is where the value is: `subject`, or `attributes.NAME`.
    """

    job: Text
    by: Text


@dataclass(frozen=True, slots=True)
class Route(FlowControl):
    """Which events get which job; both patterns are globs, and `*` matches everything.

    A route without a `job` only cancels. Otherwise an event's own job is made after it cancelled.
    What it declares of `FlowControl` goes before what its job type declares.
    """

    source: str
    event_type: str
    job: str | None
    priority: str
    cancels: Cancels | None = None
    draft: bool = False
    priority_by: PriorityBy | None = None
    """Which priority it is by a value of the event; otherwise `priority`."""

    def priority_of(self, event: Compared) -> str:
        """The priority of an event's job."""
        return self.priority if self.priority_by is None else self.priority_by.of(event)


@dataclass(frozen=True, slots=True)
class ApprovalRule(Declared):
    """Effects that a person approves before they begin; all are globs."""

    tool: Text
    tenant: Text = "*"
    job_type: Text = "*"

    def __str__(self) -> str:
        return f"tool {self.tool}, tenant {self.tenant}, job type {self.job_type}"


@dataclass(frozen=True, slots=True)
class LeasePolicy(Declared):
    """How long a silent worker keeps its jobs; a worker stops `margin` before that."""

    term_seconds: Positive = 30
    heartbeat_seconds: Positive = 5
    margin_seconds: Positive = 5


@dataclass(frozen=True, slots=True)
class WorkflowBounds(Declared):
    """How many jobs one call may gather, and how many levels of jobs a workflow may have."""

    most_children: Count = 10_000
    most_levels: Count = 32


@dataclass(frozen=True, slots=True)
class Topology:
    """The whole declaration; tuples keep the file's order, which decides between routes."""

    partitions: int
    window_ms: int
    topics: dict[str, Topic]
    stages: dict[str, StageDeclaration]
    priorities: dict[str, Priority]
    pools: tuple[str, ...]
    job_types: dict[str, JobType]
    routes: tuple[Route, ...]
    limits: tuple[Limit, ...]
    finished_jobs_ms: int
    leases: LeasePolicy = LeasePolicy()
    fused: tuple[str, ...] = ()
    """Stages that `tidegate pipeline` runs as one, in the order of the flow."""
    unhandled_ms: int = 86_400_000
    """How long a job waits, visibly, for the first worker that handles its type."""
    deliveries_ms: int = 14 * 86_400_000
    """How long an outgoing delivery waits or is parked before it is dead; then it is kept as long
    again."""
    lookback_ms: int = 3_600_000
    """How long events are kept for waits that begin after them (`JobType.waits_for`)."""
    approvals: tuple[ApprovalRule, ...] = ()
    """Which effects need an approval that their handlers do not ask for."""
    policies: tuple[Policy, ...] = ()
    """Which effects may begin, and which need an approval; the first that matches decides."""
    workflows: WorkflowBounds = WorkflowBounds()
    breakers: tuple[Breaker, ...] = ()
    """Which tools are left alone for a while when their calls fail; the first that matches."""
    max_queued: tuple[MaxQueued, ...] = ()
    """How many jobs may wait before new ones are refused at the door."""
    credentials: dict[str, CredentialDeclaration] = field(default_factory=dict)
    """Where the values lie that handlers get by name."""
    redaction: RedactionRules = field(default_factory=RedactionRules)
    """What leaves no worker."""
    roles: dict[str, tuple[Permission, ...]] = field(default_factory=dict)
    """Sets of permissions by name, beside the built-in roles of people and tokens."""
    issuers: dict[str, IssuerDeclaration] = field(default_factory=dict)
    """Whom people sign in with."""

    def route(self, source: str, event_type: str) -> Route | None:
        """The first route that matches an event; None keeps it without a job."""
        for route in self.routes:
            if fnmatchcase(source, route.source) and fnmatchcase(event_type, route.event_type):
                return route
        return None

    @property
    def routed_types(self) -> frozenset[str]:
        """The job types that routes give to events."""
        return frozenset(route.job for route in self.routes if route.job is not None)

    def job_type(self, name: str) -> JobType:
        """The declared overrides of a type, or the defaults for one that is not listed."""
        return self.job_types.get(name, JobType(name))

    def approval_rule(self, tool: str, tenant_id: str, job_type: str) -> ApprovalRule | None:
        """The first rule by which an effect needs an approval."""
        for rule in self.approvals:
            globs = (tool, rule.tool), (tenant_id, rule.tenant), (job_type, rule.job_type)
            if all(fnmatchcase(name, glob) for name, glob in globs):
                return rule
        return None

    @property
    def waited_for(self) -> tuple[Events, ...]:
        """The events that some job type waits for."""
        return tuple(dict.fromkeys(e for t in self.job_types.values() for e in t.waits_for))

    def awaited_by(self, source: str, event_type: str) -> list[str]:
        """The job types that wait for such an event."""
        return [
            job_type.name
            for job_type in self.job_types.values()
            if any(
                fnmatchcase(source, events.source) and fnmatchcase(event_type, events.event_type)
                for events in job_type.waits_for
            )
        ]

    def outputs(self, stage: StageDeclaration) -> list[str]:
        """The declared topics that a stage writes; `writes` has them by their globs."""
        return [t for t in self.topics if any(fnmatchcase(t, glob) for glob in stage.writes)]

    def letter_input(self, stage: str) -> str | None:
        """The input on which a stage's dead letters come back to it.

        It is the first that no other stage reads and that is not compacted; None if there is none.
        """
        others = {topic for s in self.stages.values() if s.name != stage for topic in s.reads}
        own = (self.topics[topic] for topic in self.stages[stage].reads if topic not in others)
        return next((topic.name for topic in own if topic.cleanup == "delete"), None)

    @property
    def default_priority(self) -> str:
        return next(iter(self.priorities))
