"""Approvals: list and show what jobs ask of people, approve and reject."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from aiohttp import web
from pydantic import AfterValidator

from streams.api.approvals import table as approvals
from streams.api.approvals.table import Shown, approval_json, details_json, seal_edit
from streams.api.command_results import run_command
from streams.api.fields import Body, Name, Writable, bounded
from streams.api.operator_state import SUBMITTED_BY, AppState
from streams.api.refusal import Refusal, invalid, unknown
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.approval_edits import Arguments, edited
from streams.errors import VaultError
from streams.http.moments import rfc3339
from streams.serde.approval_states import CANCELLED, DECIDED, EXPIRED
from streams.serde.ids import new_id
from streams.serde.records import Approval, Decide

routes = web.RouteTableDef()


class DecisionRequest(Body):
    """Body of a rejection; `by` names the person, for whom whoever holds the token vouches."""

    note: Annotated[str, AfterValidator(bounded)] = ""
    by: Name = SUBMITTED_BY


class ApproveRequest(DecisionRequest):
    """Body of an approval; `edit` are changed arguments."""

    edit: Writable = None


@routes.get("/v1/approvals")
async def list_approvals(request: web.Request) -> web.Response:
    """List approvals newest first, by tenant and status."""
    state, query = request.app[STATE], page_query(request, approvals.FILTERS)
    page = await state.query(lambda db: approvals.approvals_page(db, state.vault, query))
    return list_answer("approvals", page)


@routes.get("/v1/approvals/{approval_id}")
async def get_approval(request: web.Request) -> web.Response:
    """Show an approval with its votes, its edit and the digests of its arguments."""
    shown = await _known(request.app[STATE], request.match_info["approval_id"])
    return web.json_response({**approval_json(shown), "details": details_json(shown)})


@routes.post("/v1/approvals/{approval_id}/approve")
async def approve(request: web.Request) -> web.Response:
    """Approve what a job asks for, with changed arguments if an edit is given."""
    state = request.app[STATE]
    wanted = await read_body(request, ApproveRequest)
    shown = await _pending(state, request.match_info["approval_id"])
    if shown.asked is None:
        told = "what was asked cannot be shown here, so nobody can approve it: reject it"
        raise Refusal(410, "approval-unreadable", told)
    body = _decision(shown, wanted, approved=True)
    if wanted.edit is not None:
        body = await _with_edit(state, shown, shown.asked["arguments"], body, wanted.edit)
    return await _decided(state, shown, body)


@routes.post("/v1/approvals/{approval_id}/reject")
async def reject(request: web.Request) -> web.Response:
    """Reject what a job asks for."""
    state = request.app[STATE]
    wanted = await read_body(request, DecisionRequest)
    shown = await _pending(state, request.match_info["approval_id"])
    return await _decided(state, shown, _decision(shown, wanted, approved=False))


def _decision(shown: Shown, wanted: DecisionRequest, *, approved: bool) -> Decide:
    id_ = shown.approval.approval_id
    return Decide(id_, new_id("dec"), approved, wanted.by, wanted.note.strip())


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


async def _decided(state: AppState, shown: Shown, body: Decide) -> web.Response:
    """Send a decision, and answer what became of it."""
    about, id_ = shown.approval, shown.approval.approval_id

    def counted(connection: sqlite3.Connection) -> Shown | None:
        found = approvals.approval(connection, state.vault, id_)
        votes = () if found is None else found.approval.votes
        return found if any(vote.decision_id == body.decision_id for vote in votes) else None

    row = ("approvals", (about.tenant_id, about.scope, id_))
    try:
        found = await run_command(state, about.tenant_id, about.job_id, body, row, counted)
    except Refusal as refusal:
        with suppress(Refusal):  # the row that tells more may be late
            await state.read_barrier(("approvals", state.home(about.tenant_id)))
        _require_pending((await _known(state, id_)).approval)
        raise refusal from None
    answer = {**approval_json(found or shown), "answered": found is not None}
    return web.json_response(answer, status=202)


async def _pending(state: AppState, id_: str) -> Shown:
    """Return an approval that nobody has decided; refuse any other with 409."""
    shown = await _known(state, id_)
    _require_pending(shown.approval)
    return shown


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


async def _known(state: AppState, id_: str) -> Shown:
    shown = await state.query(lambda db: approvals.approval(db, state.vault, id_))
    if shown is None:
        hint = "it was never asked, is not shown yet, or was purged with its job"
        raise unknown("approval", id_, f"{hint}: compare the id with GET /v1/approvals")
    return shown
