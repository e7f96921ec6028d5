"""Records that change what a dispatcher knows, for a step that is taken back."""

from __future__ import annotations

from collections.abc import Iterator

from streams.dispatcher.stage import Dispatcher
from streams.runtime.dead_keys import NO_OFFSET
from streams.runtime.link import LINK
from streams.runtime.processor import Record
from streams.runtime.task import Task
from streams.schedules.definition import definition
from streams.serde.codec import COMMAND, JOB, TENANT
from streams.serde.job_states import RUNNING
from streams.serde.keys import after, tenant_key
from streams.serde.link import commands, frames
from streams.serde.records import (
    AddChildren,
    Cancel,
    ChildSpec,
    Claim,
    Command,
    CommandBody,
    DeclaredSchedule,
    DeclareSchedules,
    Ended,
    Enqueue,
    Heartbeat,
    Job,
    Move,
    SealGather,
    SetSchedule,
    StepResult,
    Submit,
    TenantRecord,
)
from streams.serde.records.command_kinds import KIND_OF
from streams.serde.run_ends import ReportedEnd
from streams.serde.step_ids import CHILD
from streams.state.indexed import INDEX

_ENDS: tuple[ReportedEnd, ...] = ("succeeded", "retry", "released", "review", "failed")
_SUBMIT = Submit("note", "{}", None, None, None, None, None, "ops", b"", None)
_EVERY = definition("note", "{}", every_seconds=1)
_SET = SetSchedule("provoking", _EVERY, None, "", "ops")
_DECLARE = DeclareSchedules("provoking", (DeclaredSchedule("declared", "*", _EVERY),))
_HEARTBEAT = Heartbeat(())

About = tuple[CommandBody, str, int, str]
"""A command, and the job, epoch and tenant that it is about."""


def provoking(task: Task, dispatcher: Dispatcher) -> list[Record]:
    """One record for each kind of change, and a poison one among them.

    What they say of workers is what the dispatcher knows already, because that is not taken back.
    """
    rows = task.stores["jobs"].range(after(INDEX), b"\xff" * 64)
    jobs = [JOB.decode(value) for _, value in rows]
    bodies = [found for number, job in enumerate(jobs) for found in _about(job, number, dispatcher)]
    middle = len(bodies) // 2
    more: list[About] = [(_SET, "", 0, "acme"), (_DECLARE, "", 0, ""), (_HEARTBEAT, "", 0, "acme")]
    bodies[middle:middle] = more
    poison = _record(LINK, NO_OFFSET, task, b"w/b", b"junk")
    said = [_command(task, number, dispatcher, *body) for number, body in enumerate(bodies)]
    return [*said[:middle], poison, *said[middle:], _closing(task)]


def _about(job: Job, number: int, dispatcher: Dispatcher) -> Iterator[About]:
    tenant, whose = job.tenant_id, (job.job_id, job.epoch, job.tenant_id)
    yield _SUBMIT, f"{job.job_id}-new", 0, tenant
    yield Cancel("overtook it", "ops"), f"{job.job_id}-never", 0, tenant
    if job.status != RUNNING:
        yield Move("default", "moved", "ops"), *whose
        if number % 2:
            yield Cancel("not needed", "ops"), *whose
        return
    worker = dispatcher.shared.workers.roster.get(job.worker_id)
    if worker is None or worker.limit < worker.sent:
        return
    run = job.run_id or ""
    if number % 3:
        yield Claim(f"clm-{number}", run, "a:b/c", b"", 0), *whose
    for body in _asking(run) if number % 2 else ():
        yield body, *whose
    status = _ENDS[number % len(_ENDS)]
    yield Ended(run, status, None, None, None, traceback=None), *whose


def _asking(run_id: str) -> Iterator[CommandBody]:
    """Ask for a job, and for a list of jobs."""
    whose, left = ("clm-child", run_id), StepResult("child", CHILD, value="{}")
    one, other = (ChildSpec(call, "note", "{}", bytes(32)) for call in ("child", "gather[p]/0"))
    yield Enqueue(*whose, left, one)
    yield SealGather(*whose, "gather[p]", bytes(32), 2, 1, 0, 0)
    yield AddChildren(run_id, "gather[p]", 0, (other,))


def _command(
    task: Task,
    number: int,
    dispatcher: Dispatcher,
    body: CommandBody,
    job_id: str,
    epoch: int,
    tenant_id: str,
) -> Record:
    """A command as it comes: a worker's is of the link."""
    command = Command(f"provoked-{number}", tenant_id, job_id, epoch, task.ctx.now, body)
    if KIND_OF[type(body)].sender == "worker":
        job = dispatcher._table.get(job_id)
        worker = getattr(body, "worker_id", "") or (job and job.worker_id) or "w/b"
        value = frames.encoded(commands.order(task.partition, number, command))
        return _record(LINK, NO_OFFSET, task, worker.encode(), value)
    at = task.positions["jobs.commands"] + number
    return _record("jobs.commands", at, task, tenant_id.encode(), COMMAND.encode(command))


def _closing(task: Task) -> Record:
    """Disable one tenant."""
    key = tenant_key("globex", "tenant", "")
    value = TENANT.encode(TenantRecord("globex", "tenant", "", True, "{}"))
    return _record("tenants", task.positions["tenants"], task, key, value)


def _record(topic: str, offset: int, task: Task, key: bytes, value: bytes) -> Record:
    return Record(topic, task.partition, offset, task.ctx.now, key, value, [])
