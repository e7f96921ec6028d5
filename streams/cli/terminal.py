"""Shared by the operator's commands: their options, the API behind them, tables or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import quote

import orjson
import typer

from streams.cli import tables
from streams.cli.api_client import TokenRefused, admin_token, api_url, call, download, token_origin
from streams.errors import ConfigError, TidegateError
from streams.serde.records import JobStatus
from streams.settings import load_settings

Url = Annotated[
    str | None,
    typer.Option(
        help="The operator's API.  [default: that of a running `tidegate dev`, else port 8080]",
        metavar="URL",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File with the admin token.  [default: TIDEGATE_ADMIN_TOKEN]")
]
DataDir = Annotated[
    Path | None, typer.Option(help="Directory of `tidegate dev`, which keeps its token there.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's.")]
Status = Annotated[
    str | None, typer.Option(help=f"Only in this state: {', '.join(get_args(JobStatus))}.")
]
Limit = Annotated[int, typer.Option(min=1, max=200, help="At most so many.")]
Cursor = Annotated[str | None, typer.Option(help="`next_cursor` of the page before.")]
Key = Annotated[
    str | None, typer.Option(help="Replay once for this key, however often it is sent.")
]


@dataclass(frozen=True, slots=True)
class Api:
    url: str
    token: str

    def get(self, path: str, **query: str | int | None) -> dict[str, Any]:
        given = {name: str(value) for name, value in query.items() if value is not None}
        return call(self.url, self.token, "GET", path, query=given)

    def download(self, path: str) -> bytes:
        return download(self.url, self.token, path)

    def post(self, path: str, body: dict[str, Any], key: str | None = None) -> dict[str, Any]:
        return call(self.url, self.token, "POST", path, body=body, idempotency_key=key)


@contextmanager
def connected(url: str | None, token_file: Path | None, data_dir: Path | None) -> Iterator[Api]:
    """Yield the API; an error inside ends the command with 1, or 2 for a wrong setting."""
    try:
        settings = load_settings(data_dir=data_dir)
        yield Api(api_url(settings, url), admin_token(settings, token_file))
    except TokenRefused as error:
        origin = token_origin(settings, token_file)
        typer.echo(f"error: {error} from {origin}: name another with --token-file", err=True)
        raise typer.Exit(1) from None
    except TidegateError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None


def page_by_page(api: Api, path: str, body: dict[str, Any], done: str) -> dict[str, Any]:
    """The sum of all pages of a bulk call; standard error shows its progress.

    `done` names the field that counts what a page has done.
    """
    total = api.post(path, body)
    while (cursor := total["next_cursor"]) is not None:
        typer.echo(f"{done} {total[done]} of {total['matched']}", err=True)
        found = api.post(path, body | {"cursor": cursor})
        for name in found.keys() - {"matched", "dry_run", "next_cursor"}:
            total[name] += found[name]
        total["next_cursor"] = found["next_cursor"]
    return total


def show(found: dict[str, Any], as_json: bool, table: tables.Show) -> None:
    if as_json:
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    else:
        table(found)


def write_raw(body: bytes) -> None:
    """Write bytes unchanged, for a file or another program, whatever they contain."""
    typer.get_binary_stream("stdout").write(body)


def part(id_: str) -> str:
    return quote(id_, safe="")
