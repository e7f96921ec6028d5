"""Faults for `INJECTED_FAULTS`: of approvals, cancels by events, changed code, shared effects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from streams import ledger
from streams.delivery import inputs, messages
from streams.dispatcher import approved_effects, votes
from streams.dispatcher.parts import approvals, claims
from streams.dispatcher.parts.unfinished_cancels import UnfinishedCancels
from streams.serde.approval_states import DECIDED, PENDING
from streams.serde.effect_scopes import is_shared
from streams.worker.handler.history import History


def digest_is_not_compared() -> Any:
    """An approved effect begins with whatever arguments it is claimed."""
    return patch.object(approved_effects, "_other_arguments", lambda *_: None)


def pending_is_approved() -> Any:
    """An effect that was asked for begins before anybody has decided."""
    return patch.object(claims, "objection", lambda *_: None)


def second_decision_counts() -> Any:
    """A decision counts even if somebody was faster."""
    check = votes.check

    def checked(approval: Any, body: Any, at: int) -> None:
        is_decided = approval.status in DECIDED
        check(replace(approval, status=PENDING) if is_decided else approval, body, at)

    return patch.object(approvals, "check", checked)


def late_decision_counts() -> Any:
    """A decision counts although its time is over, as long as the timer has not come."""
    return patch.object(votes, "is_late", lambda *_: False)


def ended_job_still_asks() -> Any:
    """The approvals of a job that has ended stay pending."""
    return patch.object(approvals.Approvals, "ended", lambda *_: None)


def nobody_is_told_of_approvals() -> Any:
    """Endpoints hear of no approval."""
    return patch.dict(inputs._TOLD, {"approvals": lambda *_: None})


def each_vote_asks() -> Any:
    """A record of an approval that has a vote gives another message."""
    made = messages.of_approval

    def message(approval: Any, now: int) -> Any:
        found = made(approval, now)
        return replace(found, message_id=f"{found.message_id}{len(approval.votes) or ''}")

    return patch.object(messages, "of_approval", message)


def cancel_is_forgotten() -> Any:
    """A cancel by an event that is not finished does not outlive its process."""
    made = UnfinishedCancels.__init__

    def started(self: Any, ctx: Any) -> None:
        made(self, ctx)
        self._all, self._unscanned, self._in_bucket = {}, {}, {}

    return patch.object(UnfinishedCancels, "__init__", started)


def divergence_is_not_noticed() -> Any:
    """A run does whatever its code asks for, though its job has other steps."""
    return patch.object(History, "_passed_over", lambda *_: None)


def first_caller_is_forgotten() -> Any:
    """A shared effect is begun by each job that asks for it."""
    answered = ledger._answered

    def answer(store: Any, entry: Any, job: Any, asked: Any, now: int, *rest: Any) -> Any:
        if is_shared(entry.scope) and entry.job_id != job.job_id:
            entry = ledger._not_begun(job, entry.scope, asked, now)
        return answered(store, entry, job, asked, now, *rest)

    return patch.object(ledger, "_answered", answer)
