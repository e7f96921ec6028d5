"""`mailgun`: `signature` in the body, HMAC-SHA256 over its `timestamp` and `token`.

https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks. The signature
does not cover the event, so whoever has seen one request can put another event beside the
signature, until its time is out of tolerance. A message of a subaccount carries its own signature
and its parent account's; one suffices.
"""

from __future__ import annotations

import hmac
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ingress.formats.document import json_document
from ingress.schemes.options import ToleranceOptions
from ingress.schemes.preset import Preset
from ingress.schemes.request import (
    SignedRequest,
    Verified,
    fresh,
    hmac_holds,
    holding_key,
    raw,
    require,
)
from ingress.schemes.scheme import OK, Scheme
from streams import user_json
from streams.errors import Misfit, SignatureError

_FIELD = "signature"
_TOLERANCE_SECONDS = 300
_MOST_BYTES = 256 * 1024
"""The limit of a body: Mailgun's have a few kilobytes, and the signature is in the body, which is
thus parsed before it is checked."""


def check(options: ToleranceOptions, secrets: Sequence[bytes], request: SignedRequest) -> Verified:
    """Verify one request; raises `SignatureError` alone."""
    part = _part(request.body)
    sent_at, token = part.get("timestamp"), part.get("token")
    message = raw(f"{sent_at}{token}")
    given = [part.get(name) for name in (_FIELD, "parent-signature")]
    signatures = [text for text in given if isinstance(text, str)]
    held = holding_key(secrets, lambda secret: hmac_holds(secret, message, signatures))
    well_formed = isinstance(token, str) and isinstance(sent_at, str | int)
    key_index = require(held, given[0], _FIELD, well_formed=well_formed)
    tolerance = options.tolerance_seconds or _TOLERANCE_SECONDS
    at = fresh(str(sent_at), request, tolerance, f"timestamp in {_FIELD}")
    return Verified(key_index, at)


def sign(secret: bytes, request: SignedRequest) -> SignedRequest:
    """Sign one request: its body gets a `signature` of a new token and of now."""
    document = _document(request.body)
    if not isinstance(document, dict):
        raise SignatureError("bad_format", "Mailgun signs a JSON object alone")
    at, token = str(int(request.now)), uuid.uuid4().hex
    mac = hmac.digest(secret, (at + token).encode(), "sha256").hex()
    signed = {**document, _FIELD: {"timestamp": at, "token": token, _FIELD: mac}}
    try:
        return replace(request, body=user_json.write(signed))
    except TypeError as error:
        raise SignatureError("bad_format", f"the body cannot be signed: {error}") from None


def _part(body: bytes) -> dict[str, Any]:
    document = _document(body) if len(body) <= _MOST_BYTES else None
    part = document.get(_FIELD) if isinstance(document, dict) else None
    return part if isinstance(part, dict) else {}


def _document(body: bytes) -> Any:
    try:
        return json_document(body)
    except Misfit:
        return None


PRESET = Preset(
    event_type='"event-data".event',
    subject='"event-data".message.headers."message-id"',
    occurred_at='"event-data".timestamp',
    dedup_key='"event-data".event && ["event-data".id, to_string("event-data".timestamp)]',
    attributes={
        "log_level": '"event-data"."log-level"',
        "severity": '"event-data".severity',
    },
)
"""https://documentation.mailgun.com/docs/mailgun/user-manual/events/event-structure: an `id` is the
event's, unique within a day. So the event's time is part of its key."""

SCHEME = Scheme(
    PRESET,
    lambda options: partial(check, options),
    lambda _: sign,
    options=ToleranceOptions,
    success=OK,
)
"""https://help.mailgun.com/hc/en-us/articles/202236504-Webhooks: what is not answered 200 is sent
again."""
