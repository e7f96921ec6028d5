"""Makes, signs and posts one delivery, as a source's vendor would."""

from __future__ import annotations

import asyncio
import base64
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import typer
from aiohttp import ClientError, ClientSession, ClientTimeout
from multidict import CIMultiDict
from yarl import URL

from ingress.formats.document import begins_as_json
from ingress.receive.answers import ANSWER_HEADER
from ingress.samples import sample
from ingress.schemes import SCHEMES, SignedRequest, Verified, sign
from ingress.schemes.normalize import Normalized, Normalizer
from ingress.schemes.request import header, with_headers
from streams.cli.api_client import CallFailed
from streams.cli.operator_command import Answer, Api, part
from streams.cli.signing_secret import read_secret
from streams.errors import ConfigError

_TIMEOUT = ClientTimeout(total=30)
_STANDARD_INPUT = Path("-")
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the ingress answered: a status and a JSON object, which is empty for another answer."""

    status: int
    document: Answer

    @property
    def outcome(self) -> str:
        """`accepted`, `duplicate`, `quarantined`, or the name of a problem."""
        named = self.document.get("status")
        kind = str(self.document.get("type", "")).rpartition(":")[2]
        return named if isinstance(named, str) else kind or _phrase(self.status)


def _phrase(status: int) -> str:
    known = status in HTTPStatus.__members__.values()  # a proxy may have a status of its own
    return HTTPStatus(status).phrase.lower() if known else "an unknown status"


def unsigned(
    source: Answer, url: str, file: Path | None, name: str | None, headers: Sequence[str]
) -> SignedRequest:
    """The delivery of a file, of standard input, or of a sample of the source's scheme.

    Raises:
        BadParameter: the file cannot be read, a header is not NAME:VALUE, or the header is missing
            in which the vendor names the event's type.
        ConfigError: there is no such sample.
    """
    now = time.time()
    if file is None:
        made = sample(source["scheme"], name, now)
        body, own = made.body, dict(made.headers)
    else:
        body = _read(file)
        own = {"Content-Type": _content_type(source["scheme"], body)}
    request = SignedRequest(own, body, url, "POST", now)
    request = with_headers(request, dict(_header(text) for text in headers))
    _require_type(source, request)
    return request


def _require_type(source: Answer, request: SignedRequest) -> None:
    """Refuse an event without a type: no route would match it, and its dedup key would be used."""
    reader = Normalizer(source["scheme"], source["mapping"], source["dedup_by"])
    name = reader.lacks_type_header(CIMultiDict(request.headers))
    if name is not None:
        example = sample(source["scheme"], None, request.now).headers[name]
        raise typer.BadParameter(
            f"the vendor names the event's type in a header: give it, as --header {name}:{example}",
            param_hint="--header",
        )


def signed(api: Api, source: Answer, request: SignedRequest, file: Path | None) -> SignedRequest:
    """The delivery with its signature: of the operator, or under the secret in a file.

    Raises:
        CallFailed: the operator cannot sign for this source.
        SignatureError: the secret in the file cannot sign.
    """
    if file is not None:
        return sign(source["scheme"], read_secret(file).encode(), request, source["options"])
    path = f"/v1/tenants/{part(source['tenant_id'])}/sources/{part(source['source'])}/sign"
    body = base64.b64encode(request.body).decode()
    found = api.post(
        path, {"url": request.url, "headers": dict(request.headers), "body_base64": body}
    )
    return replace(
        request,
        url=found["url"],
        headers=found["headers"],
        body=base64.b64decode(found["body_base64"]),
    )


def posted(delivery: SignedRequest) -> Reply:
    """Deliver once.

    Raises:
        CallFailed: nothing answers there.
    """
    try:
        return asyncio.run(_post(delivery))
    except (ClientError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        raise CallFailed(
            f"no ingress answers at {delivery.url} ({why}): start one, or name another with "
            "--ingress"
        ) from error


def normalized(source: Answer, delivery: SignedRequest) -> Normalized:
    """What an ingress makes of the delivery under the source's settings.

    Raises:
        Misfit: the body does not fit them.
    """
    message_id = header(delivery, "webhook-id")
    verified = Verified(0, delivery.now, message_id)
    reader = Normalizer(source["scheme"], source["mapping"], source["dedup_by"])
    return reader.normalize(CIMultiDict(delivery.headers), delivery.body, verified)


async def _post(delivery: SignedRequest) -> Reply:
    url = URL(delivery.url, encoded=True)
    async with (
        ClientSession(timeout=_TIMEOUT) as session,
        session.post(
            url, data=delivery.body, headers=delivery.headers, allow_redirects=False
        ) as answer,
    ):
        told = await answer.read() or answer.headers.get(ANSWER_HEADER, "").encode()
        return Reply(answer.status, _object(told))


def _object(raw: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == _STANDARD_INPUT else file.read_bytes()
    except OSError as error:
        problem = f"{file} cannot be read: {error.strerror}"
        raise typer.BadParameter(problem, param_hint="FILE") from None


def _content_type(scheme: str, body: bytes) -> str:
    """That of a form for a vendor that sends forms, unless the body is JSON."""
    return _FORM if SCHEMES[scheme].preset.form and not begins_as_json(body) else _JSON


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not name.strip() or not colon:
        raise typer.BadParameter(f"{text!r} is not NAME:VALUE", param_hint="--header")
    return name.strip(), value.strip()


def check_source(api: Api, source: Mapping[str, Any]) -> None:
    """Return if the source can take a delivery.

    Raises:
        ConfigError: it is disabled, or this version does not know its scheme.
    """
    name, tenant = source["source"], source["tenant_id"]
    if source["disabled"]:
        remedy = api.command("sources", "set", name, "--tenant", tenant, "--secret-file", "FILE")
        raise ConfigError(f"source {name} is disabled: enable it with `{remedy}`")
    if source["scheme"] not in SCHEMES:
        raise ConfigError(f"this version does not know the scheme {source['scheme']!r}")
