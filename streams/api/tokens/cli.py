"""`tidegate tokens ...`: who may call the API, from a terminal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streams.cli.cells import Json, console_of_any_width, print_fields, tell
from streams.cli.lists import page
from streams.cli.operator_command import Answer, Api, command, part
from streams.cli.options import Cursor, Limit

tokens = typer.Typer(no_args_is_help=True, help="Who may call the API: make and revoke tokens.")

TokenId = Annotated[str, typer.Argument(metavar="TOKEN_ID")]
_COLUMNS = (
    "id",
    "name",
    "status",
    "role",
    "tenants",
    "expires_at",
    "last_used_at",
    "made_by",
    "made_at",
)


def _row(token: Json) -> Json:
    names = ("permissions", "tenants", "pools", "job_types")
    return {**token, **{name: ", ".join(token[name]) for name in names if token.get(name)}}


def _made(found: Json) -> None:
    fields = {name: value for name, value in _row(found).items() if name != "token"}
    print_fields(console_of_any_width(), fields)
    typer.echo(found["token"])
    typer.echo("keep it now: it is not shown again", err=True)


def _revoked(found: Json) -> None:
    tell(f"token {found['id']} ({found['name']}) is revoked")


@tokens.callback()
def _group() -> None:
    """Make tokens of the API, list and revoke them."""


@command(tokens, "create", _made)
def create(
    api: Api,
    name: Annotated[str, typer.Argument(help="What it is for.", metavar="NAME")],
    role: Annotated[
        str | None,
        typer.Option(
            help="viewer, operator, approver, worker, admin, or one of yours.", metavar="ROLE"
        ),
    ] = None,
    permission: Annotated[
        list[str] | None,
        typer.Option(help="In place of a role; repeat it for several.", metavar="PERMISSION"),
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(help="Only of this tenant; repeat it for several.", metavar="TENANT"),
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a worker: only this pool, a name or glob; repeat it for several.",
            metavar="POOL",
        ),
    ] = None,
    job_type: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a worker: only jobs of this type, a name or glob; repeat it for several.",
            metavar="TYPE",
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="When it ends, 90 unless given.", metavar="DAYS", min=1)
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Make one for this key: a repetition is refused.", metavar="KEY"),
    ] = None,
) -> Answer:
    """Make a token and print it, this once.

    Example: tidegate tokens create ci --role operator --tenant acme --days 30
    """
    given: dict[str, Any] = {
        "name": name,
        "role": role,
        "permissions": permission or None,
        "tenants": tenant or None,
        "pools": pool or None,
        "job_types": job_type or None,
        "expires_days": days,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    return api.post("/v1/tokens", asked, key)


@command(tokens, "list", page("tokens", _COLUMNS, _row))
def list_tokens(api: Api, limit: Limit = 50, cursor: Cursor = None) -> Answer:
    """List tokens, newest first, ended ones too.

    Example: tidegate tokens list
    """
    return api.get("/v1/tokens", limit=limit, cursor=cursor)


@command(tokens, "revoke", _revoked)
def revoke(api: Api, token_id: TokenId) -> Answer:
    """End a token at once, with its open streams.

    Example: tidegate tokens revoke 5o0c2l8n1d3r7k9v
    """
    return api.delete(f"/v1/tokens/{part(token_id)}")
