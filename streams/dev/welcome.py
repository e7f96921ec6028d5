"""The first minute: a sample tenant, a banner, and commands that work as printed."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from aiohttp import ClientSession

from ingress.samples import sample
from ingress.schemes import SignedRequest, sign
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
_LOOKS, _BETWEEN_LOOKS_SECONDS = 600, 0.1
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
    return f"tidegate ready {pipeline.url}\nadmin token: {token}\nconsole: {pipeline.url}/console"


_VENDORS_OWN = "Where the vendor itself shows a secret, give --secret-file FILE, not --generate."


def next_text(settings: Settings, *, sample: bool) -> str:
    """Commands for a second terminal; with `sample`, those that deliver to the sample tenant.

    They deliver an event that the topology has a route for, or say what is missing for that.
    """
    where = _where(settings)
    topology = load(settings.topology)
    event = sample_event(topology) if sample else None
    missing = advice(topology, where) if sample and event is None else []
    commands = [*(event.commands if event else []), "jobs list", "jobs watch JOB_ID", "console"]
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
    sent = _signed(pipeline.url, secret)
    words = [
        f"curl -s {sent.url}",
        *(f"-H '{name}: {value}'" for name, value in sent.headers.items()),
        f"--data-raw {shlex.quote(sent.body.decode())}",
    ]
    job_id = event_job_id(TENANT, SOURCE, orjson.loads(sent.body)["id"])
    return "\n".join(
        (
            "Deliver a signed event, as often as you like:",
            " \\\n  ".join(words),
            "See its one job:",
            f"  tidegate jobs show {job_id}{_where(pipeline.settings)}",
        )
    )


def signed_delivery(url: str, data_dir: Path) -> SignedRequest:
    """A new event for the sample tenant of a running `dev`."""
    return _signed(url, signing_secret(data_dir, f"{TENANT}.{SOURCE}"))


def _signed(url: str, secret: str) -> SignedRequest:
    now = time.time()
    made = sample(SOURCE, None, now)
    body, hook = orjson.dumps(orjson.loads(made.body)), f"{url}/v1/hooks/{TENANT}/{SOURCE}"
    return sign(SOURCE, secret.encode(), SignedRequest(made.headers, body, hook, "POST", now))
