"""`tidegate dlq ...`: jobs and records that failed for good, from a terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from streams.api.dead_letters import cli_tables as tables
from streams.api.dead_letters.cli_options import Listed, Selected
from streams.api.dead_letters.cli_preview import preview
from streams.api.jobs import cli_sentences as job_sentences
from streams.api.jobs.cli_submission import input_value
from streams.api.live.cli_watch import follow
from streams.cli.operator_command import (
    Answer,
    Api,
    command,
    page_by_page,
    part,
    program,
    show,
    tell_how_to_follow,
    with_payload_command,
)
from streams.cli.options import AsJson, Cursor, DryRun, Id, Limit, Note
from streams.cli.quantities import moment

dlq = typer.Typer(no_args_is_help=True, help="List and show dead letters; replay or discard them.")


dlq.command("preview")(preview)


@command(dlq, "list", tables.dead_letters)
def list_dead_letters(api: Api, wanted: Listed, limit: Limit = 50, cursor: Cursor = None) -> Answer:
    """List dead letters, newest first, without those that were discarded or are manual work.

    Example: tidegate dlq list --tenant acme --reason permanent_error --not-replayed
    """
    return api.get("/v1/dlq", **wanted.query(), limit=limit, cursor=cursor)


@command(dlq, "count", tables.dead_letter_counts)
def count_dead_letters(api: Api, wanted: Listed, limit: Limit = 50) -> Answer:
    """Count dead letters by error, reason and type, most first.

    Example: tidegate dlq count --tenant acme --not-replayed
    """
    return api.get("/v1/dlq:count", **wanted.query(), limit=limit)


@command(dlq, "show", tables.dead_letter)
def show_dead_letter(api: Api, id_: Id) -> Answer:
    """Show one dead letter with its job's input, error and traceback, or its record's bytes.

    Example: tidegate dlq show job_d8utnr6f0dbu0aulueh5k9hsqk
    """
    found = api.get(f"/v1/dlq/{part(id_)}")
    if found.get("job"):
        with_payload_command(api, found["job"])
    return found


@command(dlq, "discard", job_sentences.discarded)
def discard(api: Api, id_: Id, note: Note) -> Answer:
    """Leave a dead letter out of the list from now on, because nothing is left to do about it.

    It can still be shown, and replayed alone.

    Example: tidegate dlq discard job_d8utnr6f0dbu0aulueh5k9hsqk --note "the order was cancelled"
    """
    return api.post(f"/v1/dlq/{part(id_)}/discard", {"note": note})


@command(dlq, "manual", job_sentences.manual)
def make_manual(
    api: Api,
    id_: Id,
    note: Annotated[str, typer.Option(help="What is to be done by hand.", metavar="TEXT")],
    assignee: Annotated[str | None, typer.Option(help="Who is to do it.", metavar="NAME")] = None,
) -> Answer:
    """Leave a dead letter to a person, who does by hand what its job or record was to do.

    It leaves the list, and `dlq list --manual` shows it until `dlq done` says that it is done.

    Example: tidegate dlq manual job_d8utnr6f0dbu0aulueh5k9hsqk --note "refund it" --assignee ann
    """
    body = {"note": note} | ({"assignee": assignee} if assignee else {})
    return api.post(f"/v1/dlq/{part(id_)}/manual", body)


@command(dlq, "done", job_sentences.done_by_hand)
def finish(
    api: Api,
    id_: Id,
    note: Annotated[str, typer.Option(help="What was done by hand.", metavar="TEXT")],
) -> Answer:
    """Say that manual work is done: its dead letter is left out of lists from now on.

    Example: tidegate dlq done job_d8utnr6f0dbu0aulueh5k9hsqk --note "refunded, re_81"
    """
    return api.post(f"/v1/dlq/{part(id_)}/done", {"note": note})


@dlq.command("replay")
@program
def replay(
    api: Api,
    note: Annotated[str, typer.Option(help="Why it may run again; kept with it.", metavar="TEXT")],
    selected: Selected,
    id_: Annotated[str | None, typer.Argument(metavar="ID")] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Replay all that match and were not replayed yet.")
    ] = False,
    type_: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="With --all: only jobs of this type. With ID: run it as this type.",
            metavar="TYPE",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Dead since then: RFC 3339, or 2h ago.", metavar="TIME")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Dead before then: RFC 3339, or 2h ago.", metavar="TIME")
    ] = None,
    dry_run: DryRun = False,
    fresh_scope: Annotated[
        bool, typer.Option("--fresh-scope", help="Begin the job's side effects again, too.")
    ] = False,
    repeat_effect: Annotated[
        list[str] | None,
        typer.Option(
            help="With --fresh-scope: begin this effect again although it is done.",
            metavar="ACTION",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Replay although replayed before, or done by hand.")
    ] = False,
    input_: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="In place of the job's input: JSON, @FILE, or - for standard input.",
            metavar="JSON",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Replay once for this key, however often it is sent.", metavar="KEY"),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Then watch the new job.")] = False,
    as_json: AsJson = False,
) -> int:
    """Run a dead job, or one in review, again as a new job; send dead records in again.

    With --all it replays all dead jobs and records that match; --dry-run counts them first. If it
    is interrupted, run it again: what was replayed is left out. With --watch the exit codes are
    those of `jobs watch`, and --json prints one object a line.

    Example: tidegate dlq replay job_d8utnr6f0dbu0aulueh5k9hsqk --note "address added" --watch

    Example: tidegate dlq replay --all --kind job --type export --since 2h --note "disk is back"
    """
    filters = asdict(selected) | {"since": since, "until": until, "dry_run": dry_run}
    alone = {"fresh_scope": fresh_scope, "again": again, "repeat_effects": repeat_effect or []}
    _check(id_, all_, filters, {**alone, "input": input_, "key": key, "watch": watch})
    body: dict[str, Any] = {"incident_note": note} | ({"type": type_} if type_ else {})
    if id_ is None:
        found = page_by_page(api, "/v1/dlq:replay", body | _selection(filters), "replayed")
        return show(found, as_json, job_sentences.replayed)
    body |= {name: value for name, value in alone.items() if value}
    body |= {} if input_ is None else {"input": input_value(input_)}
    found = api.post(f"/v1/dlq/{part(id_)}/replay", body, key)
    if watch and found["job_id"] is not None:
        return follow(api, found["job_id"], as_json, accepted=True)
    show(found, as_json, job_sentences.replayed)
    if "sent" not in found:
        tell_how_to_follow(api, found)
    return 0


def _selection(filters: dict[str, Any]) -> dict[str, Any]:
    """The filters as the API names them."""
    given = {name: value for name, value in filters.items() if value is not None}
    if "tenant" in given:
        given["tenant_id"] = given.pop("tenant")
    return given | {
        name: moment(given[name], f"--{name}") for name in ("since", "until") if name in given
    }


def _check(id_: str | None, all_: bool, of_all: dict[str, Any], of_one: dict[str, Any]) -> None:
    if all_ == (id_ is not None):
        raise typer.BadParameter("name one ID, or --all")
    for name, value in (of_one if all_ else of_all).items():
        if value:
            flag = f"--{name.replace('_', '-').removesuffix('s')}"
            with_what = "one ID" if all_ else "--all"
            raise typer.BadParameter(f"{flag} goes with {with_what}")
