"""`tidegate effects ...`: side effects of all jobs, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.effects.cli_settlement import Done, NotDone, settlement
from streams.cli.cells import Json, tell
from streams.cli.lists import page
from streams.cli.operator_command import Answer, Api, command, part
from streams.cli.options import Note, OfTenant, Page
from streams.serde.effect_states import CLAIMED, DONE, FAILED, REVIEW, UNKNOWN

effects = typer.Typer(no_args_is_help=True, help="List side effects, and settle shared ones.")

LIST = page(
    "effects",
    ("status", "action", "tenant_id", "began_at", "job_id", "claims", "error"),
)

_STATES = ", ".join((CLAIMED, DONE, FAILED, UNKNOWN, REVIEW))


def _settled(found: Json) -> None:
    tell(f"{found['action']} is {found['status']}: {found['note']}")


@effects.callback()
def _group() -> None:
    """List side effects, and settle those that count beyond their job."""


@command(effects, "list", LIST)
def list_effects(
    api: Api,
    page: Page,
    tool: Annotated[str | None, typer.Option(help="Only of this tool.", metavar="TOOL")] = None,
    key: Annotated[str | None, typer.Option(help="Only with this key.", metavar="KEY")] = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only in this state: {_STATES}.", metavar="STATE")
    ] = None,
) -> Answer:
    """List side effects across jobs, newest first: who did it, when, and how it ended.

    Example: tidegate effects list --tenant acme --tool stripe:refund --key ch_1
    """
    return api.get("/v1/effects", **page.query, tool=tool, key=key, status=status)


@command(effects, "settle", _settled)
def settle(
    api: Api,
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="The effect, as `effects list` names it.")
    ],
    tenant: OfTenant,
    note: Note,
    done: Done = None,
    not_done: NotDone = False,
) -> Answer:
    """Record whether an effect that counts beyond its job was done; its jobs go on.

    Its job may be forgotten. An effect of one job is settled with `jobs settle`.

    Example: tidegate effects settle @tenant/stripe:refund/ch_1 --tenant acme
    --not-done --note "not at the bank"
    """
    body = settlement(done, not_done, note)
    return api.post(f"/v1/tenants/{part(tenant)}/effects/{part(action)}/settle", body)
