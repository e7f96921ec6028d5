"""Evidence of a run in which everything went as promised, for tests to fault a fault into."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from streams.demo.run.kill import Kill
from streams.demo.run.operator_api import Listed
from streams.demo.verdict.evidence import Evidence, Submitted
from streams.demo.verdict.fold import StoreFinding
from streams.demo.verdict.topic_recorder import Records, Seen
from streams.demo.world.delivery import Answer
from streams.demo.world.recorder import Call, Start
from streams.demo.world.scenario import (
    CAP,
    CAPPED_TENANT,
    DELAYED_TENANT,
    DELAYED_TYPE,
    JOB_TYPE,
    SOURCE,
    Scenario,
    Ticket,
    compose,
)
from streams.demo.world.tools import Caller
from streams.serde.codec import COMMAND
from streams.serde.ids import event_job_id, fingerprint, submitted_job_id
from streams.serde.job_states import JobStatus
from streams.serde.records import (
    Command,
    DeadLetter,
    Envelope,
    EventInfo,
    Job,
    LedgerEntry,
    PayloadRef,
    Schedule,
    Wake,
)
from support.honest_deliveries import HonestDeliveries

T0 = 1_000_000.0
"""Seconds since the epoch at which the run began."""


def seen(topic: str, value: Any, at: float = T0, raw: bytes = b"") -> Seen[Any]:
    return Seen(topic, 0, 0, at, raw, value)


def caller(tenant_id: str, job_id: str, attempt: int = 1, pid: int = 11) -> Caller:
    return Caller(tenant_id, job_id, f"run-{job_id}-{attempt}", attempt, pid)


def call(ticket: Ticket, action: str = "email:send", **changes: Any) -> Call:
    """The one call of a ticket's side effect."""
    id_ = job_id(ticket)
    made = Call(
        caller(ticket.tenant_id, id_),
        ticket.external_id,
        action,
        f"key-{id_}-{action}",
        f"text {ticket.marker}",
        T0 + 1,
        T0 + 1.01,
        T0 + 1.1,
    )
    return replace(made, **changes)


def job_id(ticket: Ticket) -> str:
    return event_job_id(ticket.tenant_id, SOURCE, ticket.vendor_event_id)


def kill(stage: str = "worker", **changes: Any) -> Kill:
    """A kill that landed; a worker's struck the job `job_struck` under epoch 1."""
    job = ("job_struck", 1) if stage == "worker" else ("", 0)
    made = Kill(stage, f"{stage}-0", 11, T0 + 1.05, "one call", *job, 3.0)
    return replace(made, **changes)


@dataclass
class HonestRun:
    """Lists that a test may change before it asks for `evidence`."""

    scenario: Scenario = field(default_factory=lambda: compose(30, 2, seed=1))
    answers: list[Answer] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    received: list[Seen[Envelope]] = field(default_factory=list)
    events: list[Seen[Envelope]] = field(default_factory=list)
    jobs: list[Seen[Job]] = field(default_factory=list)
    commands: list[Seen[Command]] = field(default_factory=list)
    schedule: list[Seen[Schedule]] = field(default_factory=list)
    ledger: list[Seen[LedgerEntry]] = field(default_factory=list)
    dead: list[Seen[DeadLetter]] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)
    submitted: list[Submitted] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    stores: list[StoreFinding] = field(default_factory=list)
    leased: list[Seen[Job]] = field(default_factory=list)
    high_water: Counter[str] = field(default_factory=lambda: Counter({CAPPED_TENANT: CAP}))
    kill_wanted: bool = False
    outgoing: HonestDeliveries = field(init=False)

    def __post_init__(self) -> None:
        for ticket in [t for t in self.scenario.tickets if t.tenant_id == CAPPED_TENANT][:CAP]:
            self.run_at_once(ticket)
        for ticket in self.scenario.tickets:
            self._play(ticket)
        self._play_delayed()
        called_back = {each.job_id for each in self.submitted}
        self.outgoing = HonestDeliveries(self.scenario, self.events, self.jobs, called_back)
        self.stores.append(StoreFinding("jobs", "dispatcher-0/jobs/0", 31, (), True))

    def evidence(self) -> Evidence:
        records = Records(
            self.received,
            self.events,
            [*self.leased, *self.jobs],
            self.commands,
            self.schedule,
            self.ledger,
            self.dead,
            self.outgoing.rows,
            self.outgoing.attempts,
        )
        return Evidence(
            scenario=self.scenario,
            answers=tuple(self.answers),
            submitted=tuple(self.submitted),
            starts=tuple(self.starts),
            calls=tuple(self.calls),
            high_water=self.high_water,
            hooks=tuple(self.outgoing.hooks),
            records=records,
            kills=tuple(self.kills),
            kill_wanted=self.kill_wanted,
            listed=tuple(self.listed),
            stores=tuple(self.stores),
        )

    def ticket(self, **wanted: Any) -> Ticket:
        """The first ticket with these properties."""
        return next(
            t
            for t in self.scenario.tickets
            if all(getattr(t, name) == value for name, value in wanted.items())
        )

    def lease(self, id_: str, epoch: int) -> None:
        """A job as it was when it was leased, before all that is known of it."""
        running = _job(id_, "acme", JOB_TYPE, "running", 1, None)
        leased = replace(running, epoch=epoch, run_id=f"run-{id_}-{epoch}")
        self.leased.append(seen("jobs", leased))

    def change_job(self, id_: str, **changes: Any) -> None:
        """Another newest state of a job, on the topic and over HTTP."""
        job = next(s.value for s in self.jobs if s.value.job_id == id_)
        self.jobs.append(seen("jobs", replace(job, **changes)))
        if "status" in changes:
            self.listed = [
                replace(item, status=changes["status"]) if item.job_id == id_ else item
                for item in self.listed
            ]

    def add_call(self, made: Call) -> None:
        """A call and the ledger's entry for its key."""
        self.calls.append(made)
        self.ledger.append(seen("ledger", _ledger_entry(made)))

    def run_at_once(self, ticket: Ticket) -> None:
        """The job of a ticket is running, and has not ended."""
        job = _job(job_id(ticket), ticket.tenant_id, JOB_TYPE, "running", 1, None)
        self.jobs.append(seen("jobs", job))

    def _play(self, ticket: Ticket) -> None:
        id_, event_id = job_id(ticket), f"evt-{ticket.tenant_id}-{ticket.number}"
        for status in (202, 200):
            self.answers.append(Answer(ticket, status, event_id, id_, T0, T0 + 0.01))
        self.received.append(seen("events.received", _envelope(ticket, event_id)))
        self.events.append(seen("events", _envelope(ticket, event_id)))
        self.starts.append(Start(caller(ticket.tenant_id, id_), T0 + 0.5))
        for action in sorted(ticket.actions):
            self.add_call(call(ticket, action))
        attempts = 2 if ticket.flaky else 1
        if ticket.flaky:
            self.wake(id_, ticket.tenant_id, epoch=1, due=T0 + 2)
            self.lease(id_, 2)
            self.starts.append(Start(caller(ticket.tenant_id, id_, attempt=2), T0 + 2.1))
        ended: JobStatus = "dead" if ticket.poison else "succeeded"
        event = EventInfo(
            event_id,
            SOURCE,
            "ticket.created",
            None,
            None,
            0,
            "",
            None,
            None,
            ticket.vendor_event_id,
            {},
        )
        self._end(_job(id_, ticket.tenant_id, JOB_TYPE, ended, attempts, event), ticket.marker)

    def _play_delayed(self) -> None:
        id_ = submitted_job_id(DELAYED_TENANT, "follow-up")
        self.submitted += [Submitted(DELAYED_TENANT, id_, T0 + 8)] * 2
        self.wake(id_, DELAYED_TENANT, epoch=0, due=T0 + 8)
        self.starts.append(Start(caller(DELAYED_TENANT, id_), T0 + 8.1))
        self._end(_job(id_, DELAYED_TENANT, DELAYED_TYPE, "succeeded", 1, None), "")

    def wake(self, id_: str, tenant: str, *, epoch: int, due: float) -> None:
        """A timer and, in time, its firing."""
        due_at = int(due * 1000)
        command = Command(f"wake-{id_}-{epoch}", tenant, id_, 0, 0, Wake(1, epoch, due_at))
        raw = COMMAND.encode(command)
        timer = Schedule(f"{id_}-{epoch}", tenant, due_at, "jobs.commands", b"", raw)
        self.schedule.append(seen("schedule", timer))
        self.commands.append(seen("jobs.commands", command, due + 0.01, raw))

    def _end(self, job: Job, marker: str) -> None:
        self.jobs.append(seen("jobs", job))
        self.listed.append(
            Listed(job.tenant_id, job.tenant_id, job.job_id, job.status, f"result {marker}")
        )
        if job.status == "dead":
            letter = DeadLetter(
                job.job_id,
                "job",
                job.tenant_id,
                "attempts_exhausted",
                "",
                "dispatcher",
                0,
                job_id=job.job_id,
            )
            self.dead.append(seen("dlq", letter))


def _envelope(ticket: Ticket, event_id: str) -> Envelope:
    key = ticket.vendor_event_id
    return Envelope(
        fingerprint(ticket.tenant_id, SOURCE, key),
        event_id,
        SOURCE,
        ticket.tenant_id,
        "ticket.created",
        None,
        0,
        b"",
        key,
        None,
        "application/json",
        None,
        None,
        PayloadRef(0, (0,), 1, ""),
        {},
        "webhook",
    )


def _job(
    id_: str, tenant: str, type_: str, status: JobStatus, attempts: int, event: EventInfo | None
) -> Job:
    return Job(
        job_id=id_,
        tenant_id=tenant,
        incarnation=1,
        type=type_,
        pool="default",
        priority="webhook",
        status=status,
        scope=id_,
        attempts=attempts,
        max_attempts=5,
        backoff=(1.0,),
        timeout_seconds=60,
        epoch=attempts,
        run_id=None,
        worker_id=None,
        event=event,
        payload_ref=None,
        input="{}",
        request_hash=None,
        event_time=0,
        scheduled_at=None,
        next_retry_at=None,
        last_error=None,
        result=None,
        cancel_requested=False,
        workflow_id=None,
        callback_url=None,
        replay_of=None,
        replay_note=None,
        submitted_by=None,
        traceparent=None,
        created_at=0,
        updated_at=0,
        ready_at=0,
    )


def _ledger_entry(made: Call) -> LedgerEntry:
    tenant, id_ = made.caller.tenant_id, made.caller.job_id
    return LedgerEntry(
        tenant,
        id_,
        made.action,
        "done",
        id_,
        1,
        made.caller.run_id,
        "claim",
        b"",
        made.key or "",
        0,
        1,
        0,
        0,
        None,
        None,
        settled_by=None,
        note=None,
    )
