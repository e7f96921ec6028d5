"""Checks the names that become parts of the stores' keys."""

from __future__ import annotations

from streams.errors import PoisonRecord
from streams.serde.records import (
    AddChildren,
    Claim,
    ClaimStep,
    Command,
    DeclareSchedules,
    DeleteSchedule,
    Ended,
    Enqueue,
    Envelope,
    Listen,
    PauseSchedule,
    Replay,
    ReplayEvent,
    SealGather,
    SetSchedule,
    Submit,
)

MOST_CHARS = (1 << 14) - 1
"""A name that limits count by has its length before it in keys, in two bytes."""


def check(value: Envelope | Command) -> None:
    """Reject a name that cannot be a part of a key.

    Raises:
        PoisonRecord: the name of a tenant, job, type, wait or effect contains a NUL, or that of a
            tenant, type, tool or model is too long.
    """
    if "\0" in value.tenant_id or (isinstance(value, Command) and "\0" in _names(value)):
        raise PoisonRecord("bad_id", "a NUL separates the parts of the stores' keys")
    counted = (value.tenant_id, *_counted(value)) if isinstance(value, Command) else ()
    if any(len(name) > MOST_CHARS for name in counted):
        raise PoisonRecord("bad_id", f"a name has more than {MOST_CHARS:,} characters")


def _counted(command: Command) -> tuple[str, ...]:
    """Names that limits count by."""
    names: tuple[str, ...] = ()
    match command.body:
        case Claim(action=action, model=model):
            names = action.partition("/")[0], model or ""
        case ClaimStep(model=model):
            names = (model,)
        case Submit(type=type_) | Replay(type=type_) | ReplayEvent(type=type_):
            names = (type_ or "",)
        case SetSchedule(spec=spec):
            names = (spec.job,)
        case DeclareSchedules(schedules=schedules):
            names = tuple(each.spec.job for each in schedules)
        case Enqueue(child=child):
            names = (child.type,)
        case AddChildren(children=children):
            names = tuple(child.type for child in children)
    return names


def _names(command: Command) -> str:
    body = command.body
    names = [command.job_id]
    if isinstance(body, Submit | Replay | ReplayEvent):
        names.append(body.type or "")
    elif isinstance(body, Ended | Listen):
        waits = body.waits if isinstance(body, Ended) else (body.wait,)
        names += [name for wait in waits for name in (wait.id, wait.job_id or "")]
    elif isinstance(body, Claim):
        names += [body.action, body.once_per]
    elif isinstance(body, SetSchedule):
        names += [body.schedule_id, body.spec.job]
    elif isinstance(body, PauseSchedule | DeleteSchedule):
        names.append(body.schedule_id)
    elif isinstance(body, DeclareSchedules):
        names.append(body.app)
        names += [name for each in body.schedules for name in (each.schedule_id, each.spec.job)]
    elif isinstance(body, Enqueue):
        names += [body.left.id, body.child.call, body.child.type]
    elif isinstance(body, SealGather | AddChildren):
        specs = body.children if isinstance(body, AddChildren) else ()
        names += [body.id, *(name for spec in specs for name in (spec.call, spec.type))]
    return "".join(names)
