"""`tidegate send`: a signed test event, from its delivery to the end of its job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import orjson
import typer

from ingress.samples import names
from ingress.schemes import SCHEMES, SignedRequest
from streams.api.events.cli_tables import awaiting, cancelling, is_meant_without_job, only_cancels
from streams.api.live.cli_watch import follow
from streams.api.sources.cli import hook_url
from streams.cli import send_advice
from streams.cli.api_client import CallFailed
from streams.cli.delivery import Reply, check_source, posted, signed, unsigned
from streams.cli.operator_command import Answer, Api, found_or_none, part, program
from streams.cli.options import Ingress, JsonLines, OfTenant
from streams.cli.terminal_text import harmless_json

_KNOWN = "; ".join(f"{scheme}: {', '.join(names(scheme))}" for scheme in SCHEMES)
"""The samples of each scheme, for the help."""
_LATELY_SECONDS = 10.0
_PAUSES_SECONDS = (0.3, 0.7, 1.5)
"""How long to wait for an ingress that may not know the source yet: it does within 2 s. An operator
that may not show an event yet gets the same time."""
NO_JOB = 3
"""The exit code if the event has no job."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent for which source, for the advice that follows."""

    source: Answer
    delivery: SignedRequest
    secret_file: Path | None


@program
def send(
    api: Api,
    tenant: OfTenant,
    source: Annotated[str, typer.Option(help="The source that takes it.", metavar="SOURCE")],
    file: Annotated[
        Path | None, typer.Argument(help="The body; - reads standard input.", metavar="FILE")
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            help=f"Send this sample of the source's scheme; of {_KNOWN}. (the first by default)",
            metavar="NAME",
        ),
    ] = None,
    times: Annotated[int, typer.Option(min=1, help="Deliver it this often.", metavar="N")] = 1,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not follow its job.")] = False,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            help="Sign with the secret in this file, not by the operator.", metavar="FILE"
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="A header of the event.", metavar="NAME:VALUE")
    ] = None,
    ingress: Ingress = None,
    as_json: JsonLines = False,
) -> int:
    """Deliver an event as the source's vendor would, and follow its job until it ends.

    The body is a file, standard input, or a sample of the source's scheme. The operator signs it
    under the source's own secret. --json prints one object a line.

    Exit codes: 0 the job succeeded, or the event was accepted and its route only cancels jobs, or
    it has no route and jobs wait for such events, or with --no-wait it was accepted; 1 it was
    refused; 3 the job failed, is dead or was cancelled, or there is none; 4 the job needs review.

    Example: tidegate send --tenant acme --source shop --sample invoice.paid --times 3
    """
    if file is not None and sample is not None:
        raise typer.BadParameter("give FILE or --sample, not both")
    if file == secret_file == Path("-"):
        raise typer.BadParameter("standard input can be the body or the secret, not both")
    settings = _source(api, tenant, source)
    url = hook_url(api, ingress, tenant, source)
    request = unsigned(settings, url, file, sample, header or ())
    sent = Sent(settings, signed(api, settings, request, secret_file), secret_file)
    job_id, first = _delivered(api, sent, times, as_json)
    if job_id is None:
        code = _told_without_job(api, sent, first)
        return 0 if no_wait else code
    if no_wait:
        return 0
    code = follow(api, job_id, as_json, accepted=True)
    _tell_if_redelivered(api, job_id, first.document["event_id"])
    return code


def _told_without_job(api: Api, sent: Sent, first: Reply) -> int:
    """Say why an event has no job; the exit code."""
    found = _shown(api, first.document["event_id"])
    if found is not None and is_meant_without_job(found):
        told = cancelling(found) if only_cancels(found) else awaiting(found)
        typer.echo(f"it has no job: {told}", err=True)
        return 0
    typer.echo(send_advice.unrouted(api, sent.source, sent.delivery, first), err=True)
    return NO_JOB


def _shown(api: Api, event_id: str) -> Answer | None:
    """An event as the operator shows it, which is a moment after its answer."""
    for pause in (0.0, *_PAUSES_SECONDS):
        time.sleep(pause)
        found = found_or_none(api, f"/v1/events/{part(event_id)}")
        if found is not None:
            return found
    return None


def _tell_if_redelivered(api: Api, job_id: str, event_id: str) -> None:
    """Say so if the job is that of an earlier delivery, which this ingress does not remember."""
    first = api.get(f"/v1/jobs/{part(job_id)}")["event_id"]
    if first not in (None, event_id):
        typer.echo(f"{event_id} is a duplicate of {first}, and made no new job", err=True)


def _source(api: Api, tenant: str, name: str) -> Answer:
    """The source's settings.

    Raises:
        CallFailed: there is none of that name.
        ConfigError: it takes no deliveries.
    """
    found = found_or_none(api, f"/v1/tenants/{part(tenant)}/sources/{part(name)}")
    if found is None:
        api.get(f"/v1/tenants/{part(tenant)}")  # an unknown tenant is told first
        remedy = api.command("sources", "set", name, "--tenant", tenant, "--scheme", "SCHEME")
        raise CallFailed(f"tenant {tenant} has no source {name}: create it with `{remedy}`")
    check_source(api, found)
    return found


def _delivered(api: Api, sent: Sent, times: int, as_json: bool) -> tuple[str | None, Reply]:
    """Deliver, show each answer, and return the job that the event has, and the first answer.

    Raises:
        CallFailed: the ingress refused it; the message says why and what to do.
    """
    job_id, answers = None, list[Reply]()
    for number, reply in enumerate(_replies(sent, times), 1):
        answers.append(reply)
        _show(number, reply, as_json)
        if "event_id" not in reply.document or reply.outcome == "quarantined":
            raise CallFailed(
                send_advice.refused(api, sent.source, sent.delivery, reply, sent.secret_file)
            )
        job_id = reply.document["job_id"] or job_id
    return job_id, answers[0]


def _replies(sent: Sent, times: int) -> Iterator[Reply]:
    yield _first(sent)
    for _ in range(times - 1):
        yield posted(sent.delivery)


def _first(sent: Sent) -> Reply:
    """The first answer. An ingress learns of a changed source within 2 s, and says 401 until then.

    A delivery for a source that was changed just now is tried again, if the operator signed it.
    Otherwise the secret may be wrong: each try would count as a rejection.
    """
    reply = posted(sent.delivery)
    if sent.secret_file is not None or not _changed_lately(sent.source):
        return reply
    for pause in _PAUSES_SECONDS:
        if reply.status != HTTPStatus.UNAUTHORIZED:
            break
        told = f"401: the ingress may not know source {sent.source['source']} yet, which was set"
        typer.echo(f"{told} just now; trying again in {pause} s", err=True)
        time.sleep(pause)
        reply = posted(sent.delivery)
    return reply


def _changed_lately(source: Answer) -> bool:
    since = datetime.now(UTC) - datetime.fromisoformat(source["updated_at"])
    return since.total_seconds() < _LATELY_SECONDS


def _show(number: int, reply: Reply, as_json: bool) -> None:
    if as_json:
        line = {**reply.document, "delivery": number, "http_status": reply.status}
        typer.echo(harmless_json(orjson.dumps(line)).encode())
        return
    ids = (reply.document.get(name) for name in ("event_id", "job_id"))
    typer.echo(" ".join(filter(None, (f"{reply.status} {reply.outcome}", *ids))))
