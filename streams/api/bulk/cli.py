"""`tidegate bulk ...`: one action on many things, from a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import uuid4

import typer

from streams.api.bulk import cli_tables as tables
from streams.api.bulk.cli_options import body_of, failures_of, ramp_of
from streams.cli.api_client import NoAnswer, NotReached
from streams.cli.cells import progress_bar
from streams.cli.operator_command import Answer, Api, command, part, program, show
from streams.cli.options import AsJson, Cursor, Limit, Note, Page
from streams.serde.bulk_records import CANCELLED, DONE, STOPPED

bulk = typer.Typer(
    no_args_is_help=True, help="Plan, start and follow one action on many things at once."
)

_EXIT_CODES = {DONE: 0, STOPPED: 3, CANCELLED: 3}
_NOT_ALL_DONE = 1
_BETWEEN_LOOKS_SECONDS = 0.5

BulkId = Annotated[str, typer.Argument(metavar="BULK_ID")]
Action = Annotated[str, typer.Argument(metavar="ACTION", help="Such as dead_letters.replay.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", help="Which things, such as tenant_id=acme. Repeatable.", metavar="NAME=VALUE"
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        help="What the action needs, such as pool=slow. Repeatable.",
        metavar="NAME=VALUE",
    ),
]


@command(bulk, "plan", tables.plan)
def plan(api: Api, action: Action, filter_: Filters = None, params: Params = None) -> Any:
    """Show what an act would be about: how many things, the first ten, and what it leaves out.

    Example: tidegate bulk plan dead_letters.replay --filter reason=permanent_error
    """
    return api.post("/v1/bulk", body_of(action, filter_, params) | {"dry_run": True})


@bulk.command("start")
@program
def start(
    api: Api,
    action: Action,
    note: Note,
    filter_: Filters = None,
    params: Params = None,
    ramp: Annotated[
        str | None,
        typer.Option(
            help="Sizes of the first steps; `all` takes all at once. (1,10,100 by default)",
            metavar="N,N",
        ),
    ] = None,
    stop_at_failures: Annotated[
        str | None,
        typer.Option(
            help="Stop at so many failures, or below 1 at such a share; `never`. (0.1 by default)",
            metavar="N",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Begin once for this key, however often it is sent.", metavar="KEY"),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Wait for its end; show how far.")] = False,
    as_json: AsJson = False,
) -> int:
    """Begin one action on all things that a filter selects now, in growing steps.

    Exit codes: 0 it has begun, or with --watch all items are done; 1 it was refused, or with
    --watch some items failed or were not answered; 3 with --watch: it stopped at its failures, or
    was cancelled.

    Example: tidegate bulk start dead_letters.replay --filter type=export --note "disk is back"

    Example: tidegate bulk start dead_letters.discard --filter tenant_id=acme --note "test data"
    """
    body = body_of(action, filter_, params) | {"note": note}
    if ramp is not None:
        body["ramp"] = ramp_of(ramp)
    if stop_at_failures is not None:
        body["stop_at_failures"] = failures_of(stop_at_failures)
    found = _sent(api, body, key)
    if watch:
        return _followed(api, api.get(f"/v1/bulk/{part(found['bulk_id'])}"), as_json)
    typer.echo(f"follow it with: {api.command('bulk', 'watch', found['bulk_id'])}", err=True)
    return show(found, as_json, tables.plan)


@command(bulk, "list", tables.acts)
def list_acts(api: Api, page: Page) -> Any:
    """List bulk acts, newest first.

    Example: tidegate bulk list
    """
    return api.get("/v1/bulk", **page.query)


@command(bulk, "show", tables.act)
def show_act(api: Api, bulk_id: BulkId) -> Any:
    """Show an act: what was asked, by whom and why, how far it is, and who took part.

    Example: tidegate bulk show blk_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return api.get(f"/v1/bulk/{part(bulk_id)}")


@command(bulk, "items", tables.items)
def list_items(
    api: Api,
    bulk_id: BulkId,
    outcome: Annotated[
        str | None,
        typer.Option(help="Only these: waiting, done, asked, failed.", metavar="OUTCOME"),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List the items of an act in their order, each with what became of it.

    Example: tidegate bulk items blk_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11 --outcome failed
    """
    path = f"/v1/bulk/{part(bulk_id)}/items"
    return api.get(path, outcome=outcome, limit=limit, cursor=cursor)


@command(bulk, "pause", tables.act)
def pause(api: Api, bulk_id: BulkId) -> Any:
    """Let an act stand still after the items that it deals with now.

    Example: tidegate bulk pause blk_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return api.post(f"/v1/bulk/{part(bulk_id)}/pause", {})


@command(bulk, "resume", tables.act)
def resume(api: Api, bulk_id: BulkId) -> Any:
    """Let an act go on, also one that was stopped for its failures.

    Example: tidegate bulk resume blk_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return api.post(f"/v1/bulk/{part(bulk_id)}/resume", {})


@command(bulk, "cancel", tables.act)
def cancel(api: Api, bulk_id: BulkId, note: Note) -> Any:
    """End an act for good; what it has done stays.

    Example: tidegate bulk cancel blk_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11 --note "wrong filter"
    """
    return api.post(f"/v1/bulk/{part(bulk_id)}/cancel", {"note": note})


@bulk.command("watch")
@program
def watch_act(api: Api, bulk_id: BulkId, as_json: AsJson = False) -> int:
    """Follow an act to its end, or until it stops at its failures.

    Exit codes: 0 all items are done; 1 some failed or were not answered; 3 it stopped, or was
    cancelled.

    Example: tidegate bulk watch blk_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return _followed(api, api.get(f"/v1/bulk/{part(bulk_id)}"), as_json)


def _sent(api: Api, body: Answer, key: str | None) -> Answer:
    """Begin an act; without an answer, say how to see whether it has begun."""
    key = str(uuid4()) if key is None else key.strip()  # as HTTP does
    try:
        return api.post("/v1/bulk", body, key)
    except NotReached:
        raise
    except NoAnswer as error:
        look = api.command("bulk", "list")
        raise NoAnswer(
            f"{error}. The act may have begun: see with `{look}` before you ask again", error.name
        ) from None


def _followed(api: Api, found: Answer, as_json: bool) -> int:
    """Look again until the act has ended or stopped; a pause of the API itself is waited out."""
    path = f"/v1/bulk/{part(found['bulk_id'])}"
    with _told() as tell:
        while found["status"] not in _EXIT_CODES:
            tell(found)
            time.sleep(_BETWEEN_LOOKS_SECONDS)
            try:
                found = api.get(path)
            except NoAnswer:
                continue
        tell(found)
    show(found, as_json, tables.act)
    is_all_done = found["done"] == found["count"]
    return _EXIT_CODES[found["status"]] or (0 if is_all_done else _NOT_ALL_DONE)


@contextmanager
def _told() -> Iterator[Callable[[Answer], None]]:
    """A bar on a terminal's standard error; elsewhere a line there for each new status."""
    said = ""
    with progress_bar("{task.description}") as bar:
        task = bar.add_task("bulk", total=None)

        def tell(found: Answer) -> None:
            nonlocal said
            dealt_with = found["count"] - found["waiting"]
            words = f"{found['status']}, {dealt_with:,} of {found['count']:,}"
            if found["failed"]:
                words += f", {found['failed']:,} failed"
            if found["asked"]:
                words += f", {found['asked']:,} not answered"
            bar.update(task, description=words, completed=dealt_with, total=found["count"])
            if bar.disable and found["status"] != said:
                typer.echo(words, err=True)
                said = found["status"]

        yield tell
