"""The first minute: a sample tenant, a banner, and commands that work as printed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import ClientSession

from streams.dev.credentials import signing_secret
from streams.dev.pipeline import Pipeline
from streams.dev.sample_event import SOURCE, TENANT, advice, sample_event
from streams.dev.scrape import sampled
from streams.errors import TidegateError
from streams.kafka.admin import admin_client
from streams.kafka.offsets import latest, read_offsets
from streams.serde.ids import event_job_id, partition_for
from streams.settings import Settings
from streams.tenants.follower import TOPIC
from streams.topology.load import load

_POSITION = "tidegate_tenants_position"
_KAFKA_SECONDS = 5.0
_LOOKS, _BETWEEN_LOOKS_SECONDS = 150, 0.1
# A signature is usually valid for minutes; the printed one may be used later.
_TOLERANCE_SECONDS = 7 * 24 * 3600


async def create_sample_tenant(pipeline: Pipeline) -> str:
    """Create tenant `demo` with source `zendesk` through the operator's API.

    Returns its secret once the ingress accepts requests signed with it.

    Raises:
        TidegateError: the API refuses, or the ingress does not learn of the source.
    """
    secret = signing_secret(pipeline.settings.data_dir, f"{TENANT}.{SOURCE}")
    token = pipeline.credentials.admin_token
    async with ClientSession(
        pipeline.url, headers={"Authorization": f"Bearer {token}"}, raise_for_status=False
    ) as api:
        await _put(api, f"/v1/tenants/{TENANT}", {"display_name": "Sample"})
        await _put(
            api,
            f"/v1/tenants/{TENANT}/sources/{SOURCE}",
            {
                "scheme": "zendesk",
                "secret": secret,
                "options": {"tolerance_seconds": _TOLERANCE_SECONDS},
            },
        )
    await _source_live(pipeline)
    return secret


async def _put(api: ClientSession, path: str, body: Mapping[str, Any]) -> None:
    async with api.put(path, json=body) as answer:
        if answer.status >= 300:
            raise TidegateError(
                f"the sample tenant cannot be created: PUT {path} answered {answer.status}: "
                f"{(await answer.text()).strip()}"
            )


async def _source_live(pipeline: Pipeline) -> None:
    """Return once every ingress has read the tenant's records, as its metric says.

    A delivery that asks for this would be counted as a refused one until the source is known.
    """
    partition = partition_for(TENANT, load(pipeline.settings.topology).partitions)
    written = await asyncio.to_thread(_written, pipeline.settings, partition)
    ingresses = [member for member in pipeline.members if member.stage == "ingress"]
    for _ in range(_LOOKS):
        read = await sampled(ingresses, _POSITION, {"partition": str(partition)})
        if all(position is not None and position >= written for position in read):
            return
        await asyncio.sleep(_BETWEEN_LOOKS_SECONDS)
    raise TidegateError(
        "an ingress does not learn of the sample tenant: see the logs of each ingress in logs/"
    )


def _written(settings: Settings, partition: int) -> int:
    """The end of a partition of `tenants`."""
    place = (TOPIC, partition)
    admin, prefix = admin_client(settings), settings.topic_prefix
    return read_offsets(admin, prefix, [place], latest(), _KAFKA_SECONDS)[place]


def ready_text(pipeline: Pipeline, *, on_terminal: bool) -> str:
    """The text that every start prints; a terminal keeps what it shows, so it gets no token."""
    file = pipeline.settings.data_dir / "admin.token"
    token = f"in {file}" if on_terminal else pipeline.credentials.admin_token
    return f"tidegate ready {pipeline.url}\nadmin token: {token}"


_VENDORS_OWN = "Where the vendor itself shows a secret, give --secret-file FILE, not --generate."


def next_text(settings: Settings, *, sample: bool) -> str:
    """Commands for a second terminal; with `sample`, those that deliver to the sample tenant.

    They deliver an event that the topology has a route for, or say what is missing for that.
    """
    where = _where(settings)
    topology = load(settings.topology)
    event = sample_event(topology) if sample else None
    missing = advice(topology, where) if sample and event is None else []
    commands = [*(event.commands if event else []), "jobs list", "jobs watch JOB_ID"]
    return "\n".join(
        (
            f"logs of every process: {settings.data_dir / 'logs'}",
            "Only here may outgoing webhooks and callbacks reach this machine and use http.",
            "In a second terminal:",
            *(f"  tidegate {command}{where}" for command in commands),
            *missing,
            *(
                [_VENDORS_OWN]
                if any("--generate" in line for line in (*commands, *missing))
                else []
            ),
        )
    )


def _where(settings: Settings) -> str:
    """The option that a command needs to find this `dev`, with a space before it."""
    directory = settings.data_dir
    return "" if directory == Path(".tidegate") else f" --data-dir {shlex.quote(str(directory))}"


def hook_text(pipeline: Pipeline, secret: str) -> str:
    """A delivery for programs without Tidegate, already signed, and the command for its job."""
    event_id = str(uuid4())
    stamp = _stamp(datetime.now(UTC))
    body = ticket_event(event_id, stamp)
    words = [
        f"curl -s {_hook(pipeline.url)}",
        *(f"-H '{name}: {value}'" for name, value in _signed(secret, stamp, body).items()),
        f"--data-raw {shlex.quote(body.decode())}",
    ]
    job_id = event_job_id(TENANT, SOURCE, event_id)
    return "\n".join(
        (
            "Deliver a signed event, as often as you like:",
            " \\\n  ".join(words),
            "See its one job:",
            f"  tidegate jobs show {job_id}{_where(pipeline.settings)}",
        )
    )


def signed_delivery(url: str, data_dir: Path) -> tuple[str, dict[str, str], bytes]:
    """Where to send a new event of the sample tenant of a running `dev`, its headers and body."""
    stamp = _stamp(datetime.now(UTC))
    body = ticket_event(str(uuid4()), stamp)
    secret = signing_secret(data_dir, f"{TENANT}.{SOURCE}")
    return _hook(url), _signed(secret, stamp, body), body


def _hook(url: str) -> str:
    return f"{url}/v1/hooks/{TENANT}/{SOURCE}"


def ticket_event(event_id: str, at: str) -> bytes:
    """A body as Zendesk's event subscriptions send it."""
    return orjson.dumps(
        {
            "type": "zen:event-type:ticket.created",
            "id": event_id,
            "time": at,
            "account_id": 1,
            "subject": "zen:ticket:35436",
            "detail": {"id": "35436", "subject": "My printer is on fire", "status": "NEW"},
            "event": {},
        }
    )


def _signed(secret: str, stamp: str, body: bytes) -> dict[str, str]:
    """Headers with HMAC-SHA256 over timestamp and body (Zendesk, "Verifying webhooks")."""
    digest = hmac.digest(secret.encode(), stamp.encode() + body, hashlib.sha256)
    return {
        "Content-Type": "application/json",
        "X-Zendesk-Webhook-Signature-Timestamp": stamp,
        "X-Zendesk-Webhook-Signature": base64.b64encode(digest).decode(),
    }


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
