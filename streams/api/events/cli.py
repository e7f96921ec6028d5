"""`tidegate events ...`: what came in and what became of it, from a terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.api.events import cli_tables as event_tables
from streams.api.events.cli_count import count_events
from streams.api.events.cli_export import export_events
from streams.api.events.cli_seek import seek
from streams.api.events.cli_selection import Subject
from streams.api.events.cli_tail import tail_events
from streams.api.jobs import cli_sentences as job_sentences
from streams.api.replays.cli import replay_events
from streams.api.timelines.cli_timeline import Spans, timeline
from streams.cli.operator_command import Answer, Api, command, part, tell_how_to_follow
from streams.cli.options import EventId, Page

events = typer.Typer(no_args_is_help=True, help="Events: what came in, and what became of it.")


@command(events, "list", event_tables.events)
def list_events(
    api: Api,
    page: Page,
    source: Annotated[
        str | None, typer.Option(help="Only of this source.", metavar="SOURCE")
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="GLOB", help="Only of these types: 'order.*'.")
    ] = None,
    subject: Subject = None,
    key: Annotated[
        str | None, typer.Option(help="Only with this dedup key.", metavar="DEDUP_KEY")
    ] = None,
    unrouted: Annotated[
        bool, typer.Option("--unrouted", help="Only events that no route matched.")
    ] = False,
) -> Answer:
    """List the events of the last 24 hours (`events_listed_hours` of the operator), newest first.

    Example: tidegate events list --tenant acme --type 'order.*' --unrouted

    Example: tidegate events list --subject ticket-4711
    """
    return api.get(
        "/v1/events",
        **page.query,
        source=source,
        event_type=type_,
        subject=subject,
        dedup_key=key,
        unrouted="true" if unrouted else None,
    )


events.command("count")(count_events)
events.command("replay")(replay_events)
events.command("tail")(tail_events)
events.command("export")(export_events)
events.command("seek")(seek)


@command(events, "show", event_tables.event)
def show_event(api: Api, event_id: EventId) -> Answer:
    """Show an event and all that became of it: duplicates, job, effects, dead letters, replays.

    Example: tidegate events show evt_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11
    """
    found = api.get(f"/v1/events/{part(event_id)}")
    if found["job"] is None and not event_tables.is_meant_without_job(found):
        note = "a route matches it now"
        found["route_command"] = api.command("events", "route", event_id, "--note", note)
    return found | {"deliver_again": _deliver_again(api, found)}


@command(events, "timeline", timeline)
def event_timeline(api: Api, event_id: EventId, spans: Spans) -> Answer:
    """Show when everything happened that became of an event, from its delivery to its effects.

    Example: tidegate events timeline evt_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11 --failed-only
    """
    return spans.of(api, f"/v1/events/{part(event_id)}/timeline")


def _deliver_again(api: Api, event: Answer) -> list[str]:
    """The two commands that deliver an event once more; each connects as this one did."""
    whose = ("--tenant", event["tenant_id"], "--source", event["source"])
    return [
        api.command("events", "payload", event["event_id"]) + " > body",
        api.command("send", "body", *whose),
    ]


@command(events, "payload")
def event_payload(api: Api, event_id: EventId) -> bytes:
    """Write an event's raw body to standard output, as its vendor sent it.

    To deliver the event again, give the file to `tidegate send FILE --tenant T --source S`.

    Example: tidegate events payload evt_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11 > body.json
    """
    return api.download(f"/v1/events/{part(event_id)}/payload")


@command(events, "duplicates", event_tables.duplicates)
def list_duplicates(api: Api, page: Page) -> Answer:
    """List events that were delivered again, newest duplicate first.

    The count is that of the deliveries which dedup dropped. Those that an ingress answered 200
    `duplicate` from its memory are not among them.

    Example: tidegate events duplicates --tenant acme
    """
    return api.get("/v1/duplicates", **page.query)


@command(events, "route", job_sentences.routed)
def route(
    api: Api,
    note: Annotated[
        str, typer.Option(help="Why it gets its job now; kept with the command.", metavar="TEXT")
    ],
    event_id: Annotated[str | None, typer.Argument(metavar="EVENT_ID")] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Without EVENT_ID: whose event it is.", metavar="TENANT")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Without EVENT_ID: the source it came from.", metavar="SOURCE"),
    ] = None,
    dedup_key: Annotated[
        str | None, typer.Option(help="Without EVENT_ID: its dedup key.", metavar="KEY")
    ] = None,
) -> Answer:
    """Give an event its job if no route matched it on arrival and one matches now.

    Name an event of the list by its id, and an older one by its tenant, source and dedup key.

    Example: tidegate events route evt_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11 --note "route added"
    """
    keys = (tenant, source, dedup_key)
    if any(each is None for each in keys) if event_id is None else any(keys):
        raise typer.BadParameter("name one EVENT_ID, or --tenant, --source and --dedup-key")
    if event_id is not None:
        found = api.get(f"/v1/events/{part(event_id)}")
        keys = (found["tenant_id"], found["source"], found["dedup_key"])
    body = {"source": keys[1], "dedup_key": keys[2], "note": note}
    job = api.post(f"/v1/tenants/{part(str(keys[0]))}/events:route", body)
    tell_how_to_follow(api, job)
    return job
