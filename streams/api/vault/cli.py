"""`tidegate vault ...`: the keys that seal secrets, from a terminal."""

from __future__ import annotations

import typer

from streams.api.vault import cli_tables as tables
from streams.cli.operator_command import Answer, Api, command

vault = typer.Typer(no_args_is_help=True, help="Seal all secrets under the first vault key.")

_PAGE = 200
_COUNTED = ("data_keys", "sources", "endpoints", "unchanged")


@vault.callback()
def _group() -> None:
    """Seal all secrets under the first vault key."""


@command(vault, "rewrap", tables.rewrapped)
def rewrap(api: Api) -> Answer:
    """Seal all data keys and secrets again, under the first vault key; the same again is safe.

    Afterwards no record on `tenants` needs an older key, unless the answer has it in `unreadable`.

    Example: tidegate vault rewrap
    """
    total = api.post("/v1/vault/rewrap", {"limit": _PAGE})
    while (cursor := total["next_cursor"]) is not None:
        typer.echo(f"looked at {_looked_at(total)} secrets", err=True)
        page = api.post("/v1/vault/rewrap", {"limit": _PAGE, "cursor": cursor})
        for name in (*_COUNTED, "unreadable"):
            total[name] += page[name]
        total["next_cursor"] = page["next_cursor"]
    return total


def _looked_at(found: Answer) -> int:
    return sum(int(found[name]) for name in _COUNTED) + len(found["unreadable"])
