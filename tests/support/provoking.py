"""Records that change what a dispatcher knows, for a step that is taken back."""

from __future__ import annotations

from collections.abc import Iterator

from streams.dispatcher.stage import Dispatcher
from streams.runtime.processor import Record
from streams.runtime.task import Task
from streams.schedules.definition import definition
from streams.serde.codec import COMMAND, JOB, TENANT
from streams.serde.job_states import RUNNING
from streams.serde.keys import after, tenant_key
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
from streams.serde.run_ends import ReportedEnd
from streams.serde.step_ids import CHILD
from streams.state.indexed import INDEX

_ENDS: tuple[ReportedEnd, ...] = ("succeeded", "retry", "released", "review", "failed")
_SUBMIT = Submit("note", "{}", None, None, None, None, None, "ops", b"", None)
_EVERY = definition("note", "{}", every_seconds=1)
_SET = SetSchedule("provoking", _EVERY, None, "", "ops")
_DECLARE = DeclareSchedules("provoking", (DeclaredSchedule("declared", "*", _EVERY),))
_POISON = Heartbeat("w/b", "default", 1, -1, (), (), received=0, leaving=False)


def provoking(task: Task, dispatcher: Dispatcher) -> list[Record]:
    """One record for each kind of change, and a poison one among them.

    What they say of workers is what the dispatcher knows already, because that is not taken back.
    """
    rows = task.stores["jobs"].range(after(INDEX), b"\xff" * 64)
    jobs = [JOB.decode(value) for _, value in rows]
    bodies = [found for number, job in enumerate(jobs) for found in _about(job, number, dispatcher)]
    middle = len(bodies) // 2
    bodies[middle:middle] = [("", 0, "acme", _POISON), ("", 0, "acme", _SET), ("", 0, "", _DECLARE)]
    at = task.positions["jobs.commands"]
    commands = [
        _record("jobs.commands", at + number, task, *_command(task, number, *body))
        for number, body in enumerate(bodies)
    ]
    return [*commands, _closing(task)]


def _about(
    job: Job, number: int, dispatcher: Dispatcher
) -> Iterator[tuple[str, int, str, CommandBody]]:
    name, tenant = job.job_id, job.tenant_id
    yield f"{name}-new", 0, tenant, _SUBMIT
    yield f"{name}-never", 0, tenant, Cancel("overtook it", "ops")
    if job.status != RUNNING:
        yield name, job.epoch, tenant, Move("default", "moved", "ops")
        if number % 2:
            yield name, job.epoch, tenant, Cancel("not needed", "ops")
        return
    worker = dispatcher.shared.workers.roster.get(job.worker_id)
    if worker is None or worker.limit < worker.received:
        return
    who, run, epoch = worker.worker_id, job.run_id or "", job.epoch
    if number % 3:
        yield name, epoch, tenant, Claim(who, 0, f"clm-{number}", run, "a:b/c", b"", 0)
    for body in _asking(who, run) if number % 2 else ():
        yield name, epoch, tenant, body
    free = worker.limit - worker.received
    status = _ENDS[number % len(_ENDS)]
    ended = Ended(who, run, free, status, None, None, None, worker.received, traceback=None)
    yield name, epoch, tenant, ended


def _asking(worker_id: str, run_id: str) -> Iterator[CommandBody]:
    """Ask for a job, and for a list of jobs."""
    whose, left = (worker_id, 0, "clm-child", run_id), StepResult("child", CHILD, value="{}")
    one, other = (ChildSpec(call, "note", "{}", bytes(32)) for call in ("child", "gather[p]/0"))
    yield Enqueue(*whose, left, one)
    yield SealGather(*whose, "gather[p]", bytes(32), 2, 1, 0, 0)
    yield AddChildren(run_id, "gather[p]", 0, (other,))


def _command(
    task: Task, number: int, job_id: str, epoch: int, tenant_id: str, body: CommandBody
) -> tuple[bytes, bytes]:
    command = Command(f"provoked-{number}", tenant_id, job_id, epoch, task.ctx.now, body)
    return tenant_id.encode(), COMMAND.encode(command)


def _closing(task: Task) -> Record:
    """Disable one tenant."""
    key = tenant_key("globex", "tenant", "")
    value = TENANT.encode(TenantRecord("globex", "tenant", "", True, "{}"))
    return _record("tenants", task.positions["tenants"], task, key, value)


def _record(topic: str, offset: int, task: Task, key: bytes, value: bytes) -> Record:
    return Record(topic, task.partition, offset, task.ctx.now, key, value, [])
