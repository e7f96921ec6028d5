"""What scripted handlers do: their actions in order, and how their runs end."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from simulation.chance import Dice
from streams.serde.records import Handler, Lease


@dataclass(frozen=True, slots=True)
class Script:
    """`actions` are steps, effects as `tool/key`, and waits; `seconds` pass before the first.

    `wait:event` waits for an answer, `race:30` for an answer or so many seconds.
    """

    actions: tuple[str, ...]
    attempts: int = 3
    backoff: tuple[float, ...] = (5, 30)
    seconds: int = 0


SCRIPTS = {
    "note": Script(("step:a",)),
    "mail": Script(("step:draft", "mail:send/welcome")),
    "pay": Script(("pay:charge/order",), attempts=2),
    "crm": Script(("crm:note/a", "crm:note/b"), attempts=1),
    "order": Script(("pay:charge/order", "step:packed", "mail:send/bill", "crm:note/order")),
    "slow": Script(("step:read", "mail:send/late"), seconds=50),
    "nap": Script(("step:read",), seconds=45),
    "killer": Script(("step:read", "die")),
    "bomb": Script(("die",), seconds=1),
    "late": Script(("mail:send/late",)),
    "patient": Script(("mail:send/ask", "wait:event", "wait:event#2", "crm:note/answers")),
    "racer": Script(("race:30", "mail:send/after"), attempts=2),
}
"""`killer` and `bomb` end their worker's process, with and without a word before.

`late` is handled by no worker before it is deployed.
"""


def handler(job_type: str) -> Handler:
    script = SCRIPTS[job_type]
    return Handler(job_type, script.attempts, script.backoff, 120)


def root_of(lease: Lease) -> str:
    """The request that a handler believes it serves: nothing of ours need be believed for it."""
    if lease.event is not None:
        return lease.event.event_id
    return str(orjson.loads(lease.input)["root"])


def owner_of(lease: Lease) -> str:
    """The tenant in the job's own data."""
    if lease.event is not None:
        return lease.event.attributes["tenant"]
    return str(orjson.loads(lease.input)["tenant"])


def subject_of(lease: Lease) -> str:
    """The subject of the answers that a handler waits for."""
    if lease.event is not None:
        return lease.event.subject or ""
    _, type_, key, *_ = root_of(lease).split("-")
    return f"{type_}-{key}"


def fate(dice: Dice, lease: Lease) -> tuple[str, str]:
    """How a run that did all its actions ends: status, error."""
    die = dice.of("fate", root_of(lease), lease.attempt).random()
    if die < 0.12:
        return "retry", "TransientError: busy"
    if die < 0.16:
        return "failed", "PermanentError: no such customer"
    return "succeeded", ""
