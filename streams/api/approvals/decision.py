"""Approves or rejects what a job asks for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from streams.api.approvals import table as approvals
from streams.api.approvals.decision_request import ApproveRequest, DecisionRequest
from streams.api.approvals.table import Shown, approval_json, seal_edit
from streams.api.decisions import decided
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid, unknown
from streams.api.remedy import get
from streams.api.rights import author
from streams.api.rows.json_values import Json
from streams.approval_edits import Arguments, edited
from streams.errors import VaultError
from streams.http.moments import rfc3339
from streams.serde.approval_states import CANCELLED, DECIDED, EXPIRED
from streams.serde.ids import new_id
from streams.serde.records import Approval, Decide


async def approve(state: AppState, id_: str, wanted: ApproveRequest) -> Json:
    """Approve what a job asks for, with changed arguments if an edit is given.

    Raises:
        Refusal: 404; 409, somebody has decided already; 410, nobody can read what is asked.
    """
    shown = await known_approval(state, id_)
    if shown.asked is None:
        told = "what was asked cannot be shown here, so nobody can approve it: reject it"
        raise Refusal(410, "approval-unreadable", told)
    body = _decision(state, shown, wanted, approved=True)
    if wanted.edit is not None:
        body = await _with_edit(state, shown, shown.asked["arguments"], body, wanted.edit)
    return await _decided(state, shown, body)


async def reject(state: AppState, id_: str, wanted: DecisionRequest) -> Json:
    """Reject what a job asks for.

    Raises:
        Refusal: 404; 409, somebody has decided already.
    """
    shown = await known_approval(state, id_)
    return await _decided(state, shown, _decision(state, shown, wanted, approved=False))


async def known_approval(state: AppState, id_: str) -> Shown:
    """Return an approval; refuse with 404 if it is unknown."""
    shown = await state.query(lambda db: approvals.approval(db, state.vault, id_))
    if shown is None:
        all_ = get("approvals")
        hint = "it was never asked, is not shown yet, or was purged with its job"
        raise unknown("approval", id_, f"{hint}: compare the id with {all_}", all_)
    return shown


def _decision(state: AppState, shown: Shown, wanted: DecisionRequest, *, approved: bool) -> Decide:
    id_ = shown.approval.approval_id
    return Decide(id_, new_id("dec"), approved, author(state, wanted.by), wanted.note.strip())


async def _with_edit(
    state: AppState, shown: Shown, asked: Sequence[Arguments], body: Decide, edit: Any
) -> Decide:
    try:
        value, digests = edited(shown.approval.effects, asked, edit)
        seal = await state.query(lambda db: seal_edit(db, state.vault, shown.approval, value))
    except ValueError as error:
        raise invalid("edit", str(error)) from None
    except VaultError as error:
        raise Refusal(503, "approval-unreadable", str(error)) from None
    return replace(body, edit=seal, edited=digests)


async def _decided(state: AppState, shown: Shown, body: Decide) -> Json:
    """Send a decision, and return what became of it."""
    about, id_ = shown.approval, shown.approval.approval_id

    try:
        told = await decided(state, about.tenant_id, about.job_id, body, "approvals")
    except Refusal as refusal:
        with suppress(Refusal):  # the row that tells more may be late
            await state.read_barrier(("approvals", state.home(about.tenant_id)))
        _require_pending((await known_approval(state, id_)).approval)
        raise refusal from None
    return {**approval_json(await known_approval(state, id_)), **told.json()}


def _require_pending(approval: Approval) -> None:
    """Refuse with 409 to decide about an approval that has ended."""
    id_, at = approval.approval_id, rfc3339(approval.ended_at)
    if approval.status in DECIDED:
        told = f"approval {id_} was {approval.status} by {approval.by} at {at}"
        raise Refusal(409, "already-decided", told, by=approval.by, at=at, was=approval.status)
    if approval.status == EXPIRED:
        raise Refusal(409, "expired", f"approval {id_} expired at {at}", at=at)
    if approval.status == CANCELLED:
        told = f"approval {id_} is cancelled: its job does not wait for it"
        raise Refusal(409, "approval-cancelled", told, at=at)
