"""`tidegate jobs ...`, `dlq ...` and `quarantine ...`: the operator's API from a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import quote

import orjson
import typer

from streams.errors import ConfigError, TidegateError
from streams.operator import tables
from streams.operator.client import TokenRefused, admin_token, api_url, call, token_origin
from streams.serde.records import JobStatus
from streams.settings import load_settings

jobs = typer.Typer(no_args_is_help=True, help="Show, list and cancel jobs.")
dlq = typer.Typer(no_args_is_help=True, help="List, show and replay dead letters.")
quarantine = typer.Typer(
    no_args_is_help=True, help="List, show and release bodies that did not fit their source."
)

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
class _Api:
    url: str
    token: str

    def get(self, path: str, **query: str | int | None) -> dict[str, Any]:
        given = {name: str(value) for name, value in query.items() if value is not None}
        return call(self.url, self.token, "GET", path, query=given)

    def post(self, path: str, body: dict[str, Any], key: str | None = None) -> dict[str, Any]:
        return call(self.url, self.token, "POST", path, body=body, idempotency_key=key)


@jobs.command("show")
def show_job(
    job_id: str,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show one job with its effects, steps and progress."""
    with _api(url, token_file, data_dir) as api:
        _print(api.get(f"/v1/jobs/{_part(job_id)}"), as_json, tables.job)


@jobs.command("list")
def list_jobs(
    tenant: Tenant = None,
    status: Status = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with _api(url, token_file, data_dir) as api:
        found = api.get(
            "/v1/jobs", tenant_id=tenant, status=status, type=type_, limit=limit, cursor=cursor
        )
        _print(found, as_json, tables.jobs)


@jobs.command("cancel")
def cancel_job(
    job_id: str,
    reason: Annotated[str, typer.Option(help="Why; kept with the job.")] = "",
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job that has not ended."""
    with _api(url, token_file, data_dir) as api:
        found = api.post(f"/v1/jobs/{_part(job_id)}/cancel", {"reason": reason})
        _print(found, as_json, tables.job)


@dlq.command("list")
def list_dead_letters(
    tenant: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, newest first."""
    with _api(url, token_file, data_dir) as api:
        found = api.get("/v1/dlq", tenant_id=tenant, limit=limit, cursor=cursor)
        _print(found, as_json, tables.dead_letters)


@dlq.command("show")
def show_dead_letter(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with its job, or its record's bytes."""
    with _api(url, token_file, data_dir) as api:
        _print(api.get(f"/v1/dlq/{_part(id_)}"), as_json, tables.dead_letter)


@dlq.command("replay")
def replay(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    note: Annotated[str, typer.Option(help="Why the job may run again; kept with it.")],
    fresh_scope: Annotated[
        bool, typer.Option("--fresh-scope", help="Do finished side effects again, too.")
    ] = False,
    key: Key = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run a dead job, or one that needs review, again as a new job."""
    body = {"incident_note": note, "fresh_scope": fresh_scope}
    with _api(url, token_file, data_dir) as api:
        _print(api.post(f"/v1/dlq/{_part(id_)}/replay", body, key), as_json, tables.job)


@quarantine.command("list")
def list_quarantined(
    tenant: Tenant = None,
    status: Annotated[str | None, typer.Option(help="Only waiting, or only released.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List signed bodies that did not fit their source, newest first."""
    with _api(url, token_file, data_dir) as api:
        found = api.get(
            "/v1/quarantine", tenant_id=tenant, status=status, limit=limit, cursor=cursor
        )
        _print(found, as_json, tables.quarantined)


@quarantine.command("show")
def show_quarantined(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show why one body does not fit, and what became of it."""
    with _api(url, token_file, data_dir) as api:
        _print(api.get(f"/v1/quarantine/{_part(id_)}"), as_json, tables.quarantined_body)


@quarantine.command("release")
def release(
    id_: Annotated[str, typer.Argument(metavar="ID")],
    note: Annotated[str, typer.Option(help="What was mended; kept with it.")],
    url: Url = None,
    token_file: TokenFile = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let a body in as an event, under its source's mapping of now."""
    with _api(url, token_file, data_dir) as api:
        found = api.post(f"/v1/quarantine/{_part(id_)}/release", {"note": note})
        _print(found, as_json, tables.quarantined_body)


@contextmanager
def _api(url: str | None, token_file: Path | None, data_dir: Path | None) -> Iterator[_Api]:
    """The API; an error inside ends the command: 1, or 2 for a wrong setting."""
    try:
        settings = load_settings(data_dir=data_dir)
        yield _Api(api_url(settings, url), admin_token(settings, token_file))
    except TokenRefused as error:
        origin = token_origin(settings, token_file)
        typer.echo(f"error: {error} from {origin}: name another with --token-file", err=True)
        raise typer.Exit(1) from None
    except TidegateError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None


def _print(found: dict[str, Any], as_json: bool, table: tables.Show) -> None:
    if as_json:
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    else:
        table(found)


def _part(id_: str) -> str:
    return quote(id_, safe="")
