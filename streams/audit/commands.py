"""What an entry tells of the command that it answers."""

from __future__ import annotations

from dataclasses import dataclass

from streams.serde.delivery_records import RECOVER, RETRY, TEST, DeliveryCommand
from streams.serde.records import (
    Call,
    Cancel,
    Command,
    Decide,
    DeleteSchedule,
    Move,
    PauseSchedule,
    Replay,
    ReplayEvent,
    Reroute,
    SetSchedule,
    Settle,
    SettleSteps,
    Submit,
)

_VERBS: dict[type, str] = {
    Submit: "job.submit",
    Replay: "dead_letter.replay",
    Cancel: "job.cancel",
    Move: "job.move",
    Settle: "effect.settle",
    SettleSteps: "job.settle_steps",
    Reroute: "event.route",
    ReplayEvent: "event.replay",
    SetSchedule: "schedule.set",
    DeleteSchedule: "schedule.remove",
}
_DELIVERY_VERBS = {RETRY: "delivery.retry", RECOVER: "endpoint.recover", TEST: "endpoint.test"}
DELIVERY_VERBS = frozenset(_DELIVERY_VERBS.values())
"""Those of this release."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A command that is answered by an entry: who asked for what, about what, and why."""

    call: Call
    verb: str
    target: str
    tenant_id: str
    command_id: str
    note: str | None = None


def asked(command: Command) -> Asked | None:
    """What a command asks for; None if it names no call, or is one of a worker or a timer."""
    verb = verb_of(command)
    if command.call is None or verb is None:
        return None
    ids = command.tenant_id, command.command_id
    return Asked(command.call, verb, _target(command), *ids, _note(command))


def asked_of_delivery(command: DeliveryCommand) -> Asked | None:
    """What a command to the delivery stage asks for; its kind may be one of a later release."""
    if command.call is None:
        return None
    verb = _DELIVERY_VERBS.get(command.kind, f"delivery.{command.kind}")
    target = (command.delivery_id or "") if command.kind == RETRY else command.endpoint_id
    return Asked(command.call, verb, target, command.tenant_id, command.command_id)


def verb_of(command: Command) -> str | None:
    """The verb of a person's command; None for one of a worker or timer, which has no entry."""
    match command.body:
        case Decide(approved=approved):
            return "approval.approve" if approved else "approval.reject"
        case PauseSchedule(paused=paused):
            return "schedule.pause" if paused else "schedule.resume"
    return _VERBS.get(type(command.body))


def _target(command: Command) -> str:
    match command.body:
        case Replay(replay_of=job_id):
            return job_id
        case Settle(action=action):
            return f"{command.job_id} {action}"
        case Reroute(fingerprint=fingerprint):
            return fingerprint.hex()
        case Decide(approval_id=id_):
            return id_
        case SetSchedule() | PauseSchedule() | DeleteSchedule() as body:
            return body.schedule_id
    return command.job_id


def _note(command: Command) -> str | None:
    body = command.body
    return body.reason if isinstance(body, Cancel) else getattr(body, "note", None)
