"""The first minute: a sample tenant, a banner, and commands that work as printed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import ClientSession

from streams.dev.credentials import signing_secret
from streams.dev.pipeline import Pipeline
from streams.errors import TidegateError
from streams.serde.ids import event_job_id
from streams.settings import Settings

TENANT, SOURCE = "demo", "zendesk"
_KNOCKS, _BETWEEN_KNOCKS_SECONDS = 150, 0.1
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
        await _source_live(api, secret)
    return secret


async def _put(api: ClientSession, path: str, body: Mapping[str, Any]) -> None:
    async with api.put(path, json=body) as answer:
        if answer.status >= 300:
            raise TidegateError(
                f"the sample tenant cannot be created: PUT {path} answered {answer.status}: "
                f"{(await answer.text()).strip()}"
            )


async def _source_live(api: ClientSession, secret: str) -> None:
    """Send a signed body that is no JSON: a live source refuses just that, and writes nothing."""
    body, stamp = b"knock", _stamp(datetime.now(UTC))
    headers = _signed(secret, stamp, body)
    for _ in range(_KNOCKS):
        async with api.post(f"/v1/hooks/{TENANT}/{SOURCE}", data=body, headers=headers) as answer:
            if answer.status == HTTPStatus.BAD_REQUEST:
                return
        await asyncio.sleep(_BETWEEN_KNOCKS_SECONDS)
    raise TidegateError(
        "the ingress does not take what the sample tenant signs: see ingress-0.log in logs/"
    )


def ready_text(pipeline: Pipeline, *, on_terminal: bool) -> str:
    """The text that every start prints; a terminal keeps what it shows, so it gets no token."""
    file = pipeline.settings.data_dir / "admin.token"
    token = f"in {file}" if on_terminal else pipeline.credentials.admin_token
    return f"tidegate ready {pipeline.url}\nadmin token: {token}"


def next_text(settings: Settings, *, sample: bool) -> str:
    """Commands for a second terminal; with `sample`, one that delivers to the sample tenant."""
    directory = settings.data_dir
    where = "" if directory == Path(".tidegate") else f" --data-dir {shlex.quote(str(directory))}"
    send = f"send --tenant {TENANT} --source {SOURCE} --sample ticket.created --times 3"
    commands = [*([send] if sample else []), "jobs list", "jobs watch JOB_ID"]
    return "\n".join((
        f"logs of every process: {directory / 'logs'}",
        "In a second terminal:",
        *(f"  tidegate {command}{where}" for command in commands),
    ))  # fmt: skip


def list_text(pipeline: Pipeline) -> str:
    """A command for programs that shows the jobs."""
    return "See its jobs:\n" + _get(pipeline, "/v1/jobs")


def hook_text(pipeline: Pipeline, secret: str) -> str:
    """A command that delivers a signed event, and one that shows its job."""
    event_id = str(uuid4())
    stamp = _stamp(datetime.now(UTC))
    body = ticket_event(event_id, stamp)
    words = [
        f"curl -s {_hook(pipeline.url)}",
        *(f"-H '{name}: {value}'" for name, value in _signed(secret, stamp, body).items()),
        f"--data-raw {shlex.quote(body.decode())}",
    ]
    job_id = event_job_id(TENANT, SOURCE, event_id)
    return "\n".join((
        "Deliver a signed event, as often as you like:", " \\\n  ".join(words),
        "See its one job:", _get(pipeline, f"/v1/jobs/{job_id}"),
    ))  # fmt: skip


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
    return orjson.dumps({
        "type": "zen:event-type:ticket.created",
        "id": event_id,
        "time": at,
        "account_id": 1,
        "subject": "zen:ticket:35436",
        "detail": {"id": "35436", "subject": "My printer is on fire", "status": "NEW"},
        "event": {},
    })  # fmt: skip


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


def _get(pipeline: Pipeline, path: str) -> str:
    token = pipeline.credentials.admin_token
    return f"curl -s {pipeline.url}{path} \\\n  -H 'Authorization: Bearer {token}'"
