"""Jobs, their effects and timers, and their dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from streams.serde.effect_states import EffectStatus
from streams.serde.job_states import WAITING, JobStatus
from streams.serde.records.events import BatchedEvent, EventInfo, PayloadRef
from streams.serde.run_ends import AttemptKind


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that did not succeed, in its job's history."""

    attempt: int
    at: int
    worker_id: str | None
    kind: AttemptKind
    error: str | None
    traceback: str | None = None
    code: str | None = None
    began_at: int | None = None


@dataclass(frozen=True, slots=True)
class Parent:
    """The job whose run asked for this one; `gather` is the id of the call that gathers it."""

    job_id: str
    incarnation: int
    call: str
    gather: str = ""
    abandoned: bool = False


WaitKind = Literal["time", "event", "job", "approval", "gather"]


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Waits that end together: with the first of them, or, if it `needs_all`, with the last."""

    number: int
    needs_all: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """What a job waits for, or listens to while it runs; `group` -1 is only listened to.

    A wait that several tasks await is in `others`, too.
    """

    id: str
    kind: WaitKind
    position: int
    digest: bytes
    failed_before: bytes = b""
    group: int = -1
    needs_all: bool = False
    match: str = ""
    job_id: str | None = None
    approval_id: str | None = None
    since: str = "now"
    behind: int | None = None
    after_event: str = ""
    takes_it_alone: bool = False
    listened: bool = False
    timeout_ms: int | None = None
    until: int | None = None
    at: int = 0
    count: int | None = None
    others: tuple[WaitGroup, ...] = ()

    @property
    def groups(self) -> tuple[WaitGroup, ...]:
        """All groups that it is in; none if it is only listened to."""
        return () if self.group < 0 else (WaitGroup(self.group, self.needs_all), *self.others)

    def in_groups(self, groups: tuple[WaitGroup, ...]) -> Wait:
        """The wait in these groups alone."""
        first, *others = groups or (WaitGroup(-1),)
        return replace(self, group=first.number, needs_all=first.needs_all, others=tuple(others))

    @property
    def size(self) -> int:
        """The bytes of the texts that an application chooses, which may be long."""
        return sum(len(text.encode()) for text in (self.id, self.match, self.job_id or ""))


@dataclass(frozen=True, slots=True)
class LimitKey:
    """A value by which a limit counts a job (`limits/keys.py`), or a call of its run.

    Of a limit that counts calls, the job has a place for the call with this claim or, if `call` is
    empty, for its next one (`limits/places.py`).
    """

    limit: str
    key: str
    call: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    job_id: str
    tenant_id: str
    incarnation: int
    type: str
    pool: str
    priority: str
    status: JobStatus
    scope: str
    attempts: int
    max_attempts: int
    backoff: tuple[float, ...]
    timeout_seconds: float
    epoch: int
    run_id: str | None
    worker_id: str | None
    event: EventInfo | None
    payload_ref: PayloadRef | None
    input: str
    request_hash: bytes | None
    event_time: int
    scheduled_at: int | None
    next_retry_at: int | None
    last_error: str | None
    result: str | None
    cancel_requested: bool
    workflow_id: str | None
    callback_url: str | None
    replay_of: str | None
    replay_note: str | None
    submitted_by: str | None
    traceparent: str | None
    created_at: int
    updated_at: int
    ready_at: int
    asked_timeout_seconds: float | None = None
    lost: int = 0
    lost_alone: int = 0
    cancel_reason: str | None = None
    asked_pool: str | None = None
    end_reason: str | None = None
    replayed_as: str | None = None
    history: tuple[Attempt, ...] = ()
    replay_id: str | None = None
    confirmed: bool = False
    code: str | None = None
    code_at_start: str | None = None
    diverged: str | None = None
    waits: tuple[Wait, ...] = ()
    resumes: int = 0
    draft: bool = False
    awaits_effect: str | None = None
    schedule_id: str | None = None
    scheduled_for: int | None = None
    parent: Parent | None = None
    depth: int = 0
    continuations: int = 0
    superseded_by: str | None = None
    event_ids: tuple[str, ...] = ()
    event_count: int = 0
    events: tuple[BatchedEvent, ...] = ()
    expires_at: int | None = None
    queued_behind: str | None = None
    limit_keys: tuple[LimitKey, ...] = ()
    began_at: int | None = None

    def is_same_life(self, incarnation: int) -> bool:
        """Whether it has, or had before it began anew, this incarnation."""
        return self.incarnation - self.continuations <= incarnation <= self.incarnation

    @property
    def own_workflow(self) -> str:
        """The id of the workflow of which it is the root, unless it is in another.

        Each life of an id has one of its own. A job that continues as new begins none.
        """
        life = self.incarnation - self.continuations
        return self.job_id if life == 1 else f"{self.job_id}.{life}"

    @property
    def due_at(self) -> int | None:
        """When it goes on, or last went on, at a set time.

        That is its next attempt or its start or, while it waits, the end of its first wait.
        """
        if self.status == WAITING:
            return min((w.until for w in self.waits if w.until is not None), default=None)
        return self.next_retry_at or self.scheduled_at

    @property
    def all_event_ids(self) -> tuple[str, ...]:
        """The events that it stands for, as far as it names them: also if that is its own alone."""
        if self.events:
            return tuple(each.event.event_id for each in self.events)
        return self.event_ids or ((self.event.event_id,) if self.event else ())


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a finished step or wait left."""

    id: str
    kind: str
    position: int = -1
    digest: bytes = b""
    value: str | None = None
    raises: str | None = None
    message: str = ""
    code: str | None = None
    failed_before: bytes = b""
    changed_args: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    tenant_id: str
    scope: str
    action: str
    status: EffectStatus
    job_id: str
    epoch: int
    run_id: str
    claim_id: str
    digest: bytes
    idempotency_key: str
    key_lifetime_ms: int
    claims: int
    first_claimed_at: int
    updated_at: int
    result: str | None
    error: str | None
    settled_by: str | None
    note: str | None
    keep_ms: int = 0
    worker_id: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    schedule_id: str
    tenant_id: str
    due_at: int
    topic: str
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: str
    kind: Literal["job", "record"]
    tenant_id: str
    reason: str
    detail: str
    stage: str
    at: int
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    job_id: str | None = None
    type: str | None = None
    status: str | None = None
    attempts: int = 0
    traceparent: str | None = None
    timestamp: int | None = None
    headers: dict[str, bytes] = field(default_factory=dict)
    cut: bool = False
    replayed_at: int | None = None
    replayed_as: str | None = None
    replayed_by: str | None = None
    note: str | None = None
    discarded_at: int | None = None
    discarded_by: str | None = None
    discard_note: str | None = None
    replay_outcome: Literal["taken", "superseded", "failed"] | None = None
    manual_at: int | None = None
    manual_by: str | None = None
    manual_note: str | None = None
    assignee: str | None = None
    done_at: int | None = None
    done_by: str | None = None
    done_note: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Jobs of one pool and type, in one partition, for which no lease can be made."""

    partition: int
    pool: str
    type: str
    tenant_id: str | None
    reason: Literal["no_worker", "no_pool", "tenant_disabled", "no_slot"]
    since: int
    jobs: int
    detail: str


@dataclass(frozen=True, slots=True)
class BacklogDepth:
    """How many jobs of one tenant or type, or of all, wait for a slot in one partition."""

    scope: str
    value: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """The depths of one partition that are near a cap of `max_queued`; no other is."""

    partition: int
    depths: tuple[BacklogDepth, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    job_id: str
    tenant_id: str
    run_id: str
    at: int
    value: str


LiveKind = Literal["token", "log", "reset"]


@dataclass(frozen=True, slots=True)
class LiveOutput:
    """What a run says while it runs; docs/live.md has the meaning of the kinds and of `n`."""

    job_id: str
    tenant_id: str
    run_id: str
    epoch: int
    at: int
    kind: LiveKind
    step: str
    n: int
    text: str
