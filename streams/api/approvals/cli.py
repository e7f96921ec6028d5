"""`tidegate approvals ...`: what jobs ask of people, from a terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streams.api.approvals import cli_tables as tables
from streams.api.jobs.cli_submission import json_value
from streams.cli.cells import Json, tell
from streams.cli.operator_command import Answer, Api, command, part
from streams.cli.options import Page
from streams.serde.approval_states import APPROVED, CANCELLED, EXPIRED, PENDING, REJECTED

approvals = typer.Typer(no_args_is_help=True, help="What jobs ask of people: list and decide.")

_STATES = ", ".join((PENDING, APPROVED, REJECTED, EXPIRED, CANCELLED))
ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL_ID")]
Why = Annotated[str, typer.Option("--note", help="Why; kept with it.", metavar="TEXT")]
By = Annotated[str | None, typer.Option(help="Who decides, if not the operator.", metavar="PERSON")]


def _decided(found: Json) -> None:
    by = f" by {found['by']}" if found["by"] else ""
    tell(f"approval {found['approval_id']} of job {found['job_id']} is {found['status']}{by}")


@approvals.callback()
def _group() -> None:
    """List what jobs ask of people, show it, approve it or reject it."""


@command(approvals, "list", tables.approvals)
def list_approvals(
    api: Api,
    page: Page,
    status: Annotated[
        str | None, typer.Option(help=f"Only in this state: {_STATES}.", metavar="STATE")
    ] = None,
) -> Answer:
    """List approvals, newest first.

    Example: tidegate approvals list --tenant acme --status pending
    """
    return api.get("/v1/approvals", **page.query, status=status)


@command(approvals, "show", tables.approval)
def show(api: Api, approval_id: ApprovalId) -> Answer:
    """Show what is asked, with its arguments, its votes and its edit, and how to decide.

    Example: tidegate approvals show apr_1
    """
    found = api.get(f"/v1/approvals/{part(approval_id)}")
    return found | _ways(api, approval_id) if found["status"] == PENDING else found


def _ways(api: Api, approval_id: str) -> Answer:
    """The commands and the page that decide."""
    noted = (approval_id, "--note", "TEXT")
    return {
        "to_approve": api.command("approvals", "approve", *noted),
        "to_reject": api.command("approvals", "reject", *noted),
        "page": f"{api.url}/approvals/{part(approval_id)}",
    }


@command(approvals, "approve", _decided)
def approve(
    api: Api,
    approval_id: ApprovalId,
    note: Why = "",
    edit: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="The changed arguments, as JSON; the others stay."),
    ] = None,
    by: By = None,
) -> Answer:
    """Approve what a job asks for; the job goes on with exactly these arguments.

    Example: tidegate approvals approve apr_1 --note "as agreed" --edit '{"amount": 41000}'
    """
    body = _body(note, by)
    if edit is not None:
        body["edit"] = json_value(edit, "--edit")
    return api.post(f"/v1/approvals/{part(approval_id)}/approve", body)


@command(approvals, "reject", _decided)
def reject(api: Api, approval_id: ApprovalId, note: Why = "", by: By = None) -> Answer:
    """Reject what a job asks for; its handler goes on with that.

    Example: tidegate approvals reject apr_1 --note "too much"
    """
    return api.post(f"/v1/approvals/{part(approval_id)}/reject", _body(note, by))


def _body(note: str, by: str | None) -> dict[str, Any]:
    return {"note": note} | ({} if by is None else {"by": by})
