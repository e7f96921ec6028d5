"""What scripted handlers do: their actions in order, and how their runs end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from simulation.chance import Dice
from streams.serde.effect_scopes import JOB
from streams.serde.records import Handler, Lease
from streams.worker.handler.approvals import Terms


@dataclass(frozen=True, slots=True)
class Script:
    """`actions` are steps, effects as `tool/key`, and waits; `seconds` pass before the first.

    - `step:write=draft<note` is the step `write`, formerly `note`, whose function is `draft`; a
      plain step is named as its function is.
    - `wait:event` waits for an answer, `race:30` for an answer or so many seconds.
    - `ask:tool/key` asks people for the effect, and is over without it unless they approve.
    - `tool/key@tenant` counts once for all jobs of a tenant.
    - `grow` asks for jobs and awaits them, or begins the job anew, as its input says.

    `others` are the actions of other versions of the handler, and `fails` is the share of its runs
    that fail for good.
    """

    actions: tuple[str, ...]
    attempts: int = 3
    backoff: tuple[float, ...] = (5, 30)
    seconds: int = 0
    others: tuple[tuple[str, ...], ...] = ()
    fails: float = 0.04

    def version(self, number: int) -> tuple[str, ...]:
        """The actions of one version; a type without so many has its first."""
        return (self.actions, *self.others)[number] if number <= len(self.others) else self.actions


_READ, _FILED, _SENT = "step:read", "step:file", "mail:send/novel"
_NOVEL = Script(
    (_READ, "step:draft", "wait:event", _SENT, _FILED),
    others=(
        (_READ, "step:write=draft", "wait:event", _SENT, _FILED),
        ("step:draft", _READ, "wait:event", _SENT, _FILED),
        (_READ, "wait:event", _SENT, _FILED),
        (_READ, "step:write=draft<draft", "wait:event", _SENT, _FILED),
    ),
)
"""Its step is renamed, moved, removed, and renamed with its earlier name told."""


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
    "refund": Script(("step:read", "ask:pay:charge/refund", "pay:charge/refund")),
    "loan": Script(("ask:mail:send/loan", "mail:send/loan", "step:told")),
    "letter": Script(("step:draft", "mail:send/letter")),
    "grant": Script(("pay:charge/grant", "step:told")),
    "novel": _NOVEL,
    "herald": Script(("mail:send/news@tenant", "crm:note/news@tenant"), backoff=(5, 5)),
    "chase": Script(("step:look", "race:15", "mail:send/chase"), seconds=12),
    "digest": Script(("step:read", "mail:send/digest")),
    "bulk": Script(("step:read", "crm:note/bulk"), attempts=2),
    "sync": Script(("step:read", "crm:note/sync"), seconds=6),
    "tree": Script(("grow", "crm:note/tree"), backoff=(5, 5), fails=0.08),
    "leaf": Script(("step:read", "mail:send/leaf"), backoff=(5, 5), fails=0.15),
}
"""`killer` and `bomb` end their worker's process, with and without a word before.

`late` is handled by no worker before it is deployed. People approve the effects of `refund` and
`loan`, which ask, of `letter`, whose jobs are drafts, and of `grant`, as a rule wants it. An event
may cancel what waits for a `chase`. Flow control holds for `digest`, `bulk` and `sync`. Each event
of these four is a new one. A `tree` asks for jobs of several types, `leaf` and `tree` among them.
"""

TERMS = {
    "refund": Terms(timeout_ms=60_000),
    "loan": Terms(timeout_ms=40_000, on_timeout="raise", approvers="not_submitter", quorum=2),
}
APPROVED = ("refund", "loan", "letter", "grant")
"""Types whose effects people approve."""
SECRET = "s3cr3t"
"""It stands in all that may be read only by who decides."""


def code_of(version: int) -> str:
    return f"1.{version}"


def needed(job_type: str) -> list[tuple[str, str, str]]:
    """The effects without which a job of a type has not succeeded: tool, key and `once_per`."""
    found = [action for action in SCRIPTS[job_type].actions if is_effect(action)]
    return [split_effect(action) for action in found]


def is_effect(action: str) -> bool:
    return "/" in action and not action.startswith("ask:")


def split_effect(action: str) -> tuple[str, str, str]:
    """The tool, the key and the scope of an effect."""
    name, _, once_per = action.partition("@")
    tool, _, key = name.partition("/")
    return tool, key, once_per or JOB


def arguments_of(lease: Lease, once_per: str) -> dict[str, Any]:
    """The arguments of an effect; jobs that share one give the same."""
    return {"text": SECRET, "of": root_of(lease) if once_per == JOB else once_per}


def forgets_the_edit(dice: Dice, lease: Lease) -> bool:
    """Whether a faulty handler uses its own arguments, and not those of the decision."""
    return dice.chance(0.4, "edit", root_of(lease))


def is_hasty(dice: Dice, lease: Lease) -> bool:
    """Whether a faulty handler does not await the decision that it asked for."""
    return dice.chance(0.15, "hasty", root_of(lease), lease.attempt)


def handler(job_type: str, version: int) -> Handler:
    script = SCRIPTS[job_type]
    return Handler(job_type, script.attempts, script.backoff, 120, code_of(version))


def root_of(lease: Lease) -> str:
    """The request that a handler believes it serves: nothing of ours need be believed for it."""
    if lease.event is not None:
        return lease.event.event_id
    root = str(orjson.loads(lease.input)["root"])
    return root if lease.scheduled_for is None else f"{root}-{lease.scheduled_for}"


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
    life = () if lease.workflow_id is None else (lease.job_id, lease.incarnation)
    die = dice.of("fate", root_of(lease), lease.attempt, *life).random()
    if die < 0.12:
        return "retry", "TransientError: busy"
    if die < 0.12 + SCRIPTS[lease.type].fails:
        return "failed", "PermanentError: no such customer"
    return "succeeded", ""
