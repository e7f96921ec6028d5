"""`tidegate events replay` and `tidegate replays ...`: old events get jobs once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import uuid4

import typer

from streams.api.events.cli_selection import Past, ranges
from streams.api.replays import cli_tables as replay_tables
from streams.cli.api_client import NoAnswer, NotReached
from streams.cli.cells import plain, progress_bar
from streams.cli.operator_command import Answer, Api, command, part, program, show
from streams.cli.options import AsJson, Note, Page
from streams.cli.quantities import moment
from streams.serde.ids import event_replay_id
from streams.serde.replay_records import DONE, EXPIRED, STOPPED

replays = typer.Typer(no_args_is_help=True, help="List, show, pause and stop replays of events.")

_EXIT_CODES = {DONE: 0, STOPPED: 3, EXPIRED: 3}
_BETWEEN_LOOKS_SECONDS = 0.5
_COUNTED_WITHIN_SECONDS = 300.0
"""How long a dry run may take that reads as much as it may."""

ReplayId = Annotated[str, typer.Argument(metavar="REPLAY_ID")]


@program
def replay_events(
    api: Api,
    wanted: Past,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="In place of --tenant: of every tenant.")
    ] = False,
    job: Annotated[
        str | None, typer.Option(help="The type of the job that each event gets.", metavar="TYPE")
    ] = None,
    route: Annotated[
        bool, typer.Option("--route", help="In place of --job: as the routes of now say.")
    ] = False,
    note: Annotated[
        str | None, typer.Option(help="Why they get jobs once more; kept with it.", metavar="TEXT")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.1, max=10_000, help="Jobs a second, at most. (100 by default)", metavar="N"
        ),
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option(help="Priority of the jobs. (batch by default)", metavar="PRIORITY"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Begin once for this key, however often it is sent.", metavar="KEY"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the events and the jobs.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Wait for its end; show how far.")] = False,
    as_json: AsJson = False,
) -> int:
    """Give events of the past jobs once more: one job for each event and replay.

    Times are those at which a broker took the deliveries in. Exit codes: 0 it has begun, or with
    --watch ended; 1 it was refused; 3 with --watch: it was stopped.

    Example: tidegate events replay --tenant acme --type 'order.*' --since 2d --job x --dry-run

    Example: tidegate events replay --tenant acme --since 2d --route --note "index lost" --watch
    """
    if (wanted.tenant is None) != all_tenants:
        raise typer.BadParameter("name one --tenant, or say --all-tenants")
    if note is None and not dry_run:
        raise typer.BadParameter("say why with --note, or count first with --dry-run")
    if (job is None) != route and not dry_run:
        raise typer.BadParameter("give one of --job TYPE or --route (the present routes)")
    if key is not None and (_is_ago(wanted.since, "--since") or _is_ago(wanted.until, "--until")):
        raise typer.BadParameter(
            "with --key give times, such as 2026-11-21T09:00:00Z: how long ago means other events "
            "whenever the command is sent"
        )
    body: Answer = {
        "tenant_id": wanted.tenant,
        "source": wanted.source,
        "event_type": wanted.type_,
        "subject": wanted.subject,
        "since": _moment(wanted.since, "--since"),
        "until": _moment(wanted.until, "--until"),
        "offsets": _ranges(wanted.offsets),
        "job": job,
        "route": route,
        "note": note,
        "rate": rate,
        "priority": priority,
        "dry_run": dry_run,
    }
    body = {name: value for name, value in body.items() if value is not None}
    found = _sent(api, body, key)
    if found["warning"]:
        typer.echo(f"warning: {plain(found['warning'])}", err=True)
    if dry_run:
        return show(found, as_json, replay_tables.preview)
    return _followed(api, found, as_json) if watch else _begun(api, found, as_json)


def _sent(api: Api, body: Answer, key: str | None) -> Answer:
    """Begin a replay, or count one; without an answer, say how to see whether it has begun."""
    if body["dry_run"]:
        return api.post("/v1/replays", body, within=_COUNTED_WITHIN_SECONDS)
    key = str(uuid4()) if key is None else key.strip()  # as HTTP does
    try:
        return api.post("/v1/replays", body, key)
    except NotReached:
        raise
    except NoAnswer as error:
        replay_id = event_replay_id(body.get("tenant_id"), key)
        if replay_id in str(error):  # the API has said so itself
            raise
        look = api.command("replays", "show", replay_id)
        raise NoAnswer(
            f"{error}. The replay may have begun: see with `{look}` before you ask again",
            error.name,
        ) from None


@command(replays, "list", replay_tables.replays)
def list_replays(api: Api, page: Page) -> Any:
    """List replays of events, newest first.

    Example: tidegate replays list --tenant acme
    """
    return api.get("/v1/replays", **page.query)


@command(replays, "show", replay_tables.replay)
def show_replay(api: Api, replay_id: ReplayId) -> Any:
    """Show a replay: what was asked, by whom and why, how far it is, what got no job.

    Example: tidegate replays show rpl_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return api.get(f"/v1/replays/{part(replay_id)}")


@replays.command("watch")
@program
def watch_replay(api: Api, replay_id: ReplayId, as_json: AsJson = False) -> int:
    """Follow a replay to its end.

    Exit codes: 0 done; 3 stopped, or expired because the dispatcher no longer knows its jobs.

    Example: tidegate replays watch rpl_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return _followed(api, api.get(f"/v1/replays/{part(replay_id)}"), as_json)


@command(replays, "pause", replay_tables.replay)
def pause_replay(api: Api, replay_id: ReplayId) -> Any:
    """Let a replay stand still until it is resumed; jobs that it has made go on.

    Example: tidegate replays pause rpl_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return api.post(f"/v1/replays/{part(replay_id)}/pause", {})


@command(replays, "resume", replay_tables.replay)
def resume_replay(api: Api, replay_id: ReplayId) -> Any:
    """Let a replay go on from where it stands.

    Example: tidegate replays resume rpl_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    return api.post(f"/v1/replays/{part(replay_id)}/resume", {})


@command(replays, "stop", replay_tables.replay)
def stop_replay(api: Api, replay_id: ReplayId, note: Note) -> Any:
    """End a replay for good; the jobs that it has made stay.

    Example: tidegate replays stop rpl_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11 --note "wrong type"
    """
    return api.delete(f"/v1/replays/{part(replay_id)}", {"note": note})


def _moment(text: str | None, flag: str) -> str | None:
    return None if text is None else moment(text, flag)


def _is_ago(text: str | None, flag: str) -> bool:
    return _moment(text, flag) != text


def _ranges(texts: list[str] | None) -> dict[str, list[int | None]] | None:
    """Offsets as the API takes them."""
    return {str(number): [*ends] for number, ends in ranges(texts).items()} or None


def _begun(api: Api, found: Answer, as_json: bool) -> int:
    follow = api.command("replays", "watch", found["replay_id"])
    typer.echo(f"follow it with: {follow}", err=True)
    return show(found, as_json, replay_tables.replay)


def _followed(api: Api, found: Answer, as_json: bool) -> int:
    """Look again until the replay has ended; a pause of the API itself is waited out."""
    path = f"/v1/replays/{part(found['replay_id'])}"
    with _told() as tell:
        while found["status"] not in _EXIT_CODES:
            tell(found)
            time.sleep(_BETWEEN_LOOKS_SECONDS)
            try:
                found = api.get(path)
            except NoAnswer:
                continue
        tell(found)
    show(found, as_json, replay_tables.replay)
    return _EXIT_CODES[found["status"]]


@contextmanager
def _told() -> Iterator[Callable[[Answer], None]]:
    """A bar on a terminal's standard error; elsewhere a line there for each new status."""
    said = ""
    with progress_bar("{task.description}") as bar:
        task = bar.add_task("replay", total=None)

        def tell(found: Answer) -> None:
            nonlocal said
            words = f"{found['status']}, {found['jobs']:,} jobs"
            bar.update(
                task,
                description=words,
                completed=found["records_read"],
                total=found["records_total"],
            )
            if bar.disable and found["status"] != said:
                typer.echo(words, err=True)
                said = found["status"]

        yield tell
