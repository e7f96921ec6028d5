"""`twilio`: `X-Twilio-Signature`, base64 of HMAC-SHA1 under the account's auth token.

https://www.twilio.com/docs/usage/security#validating-requests: the HMAC of a form covers the URL
and the fields' names and values, sorted. For any other body it covers only the URL, whose query
names the body's SHA-256 as `bodySHA256`. Twilio keeps a port in some requests and drops it in
others, so the URL is tried as it came, without a port, and with its scheme's default port.

Names and values are joined without a separator, so the same signed text can be split into other
fields. Only somebody who has seen a signed request can do that.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import replace

from ingress.formats.form import form_fields
from ingress.schemes.preset import Preset
from ingress.schemes.request import (
    SignedRequest,
    Verified,
    header,
    hmac_holds,
    holding_key,
    raw,
    require,
    with_headers,
)
from ingress.schemes.scheme import Scheme
from streams.errors import MalformedBody

HEADER = "X-Twilio-Signature"
_URL = re.compile(r"(https?)(://[^/?#]*?)(:[0-9]*)?([/?#].*)?", re.IGNORECASE | re.DOTALL)
_MOST_FORM_BYTES = 64 * 1024
"""The limit of a form: Twilio's have a few kilobytes, and a form is parsed before its signature is
checked."""
_BODY_HASH = re.compile(r"[?&]bodySHA256=([0-9a-fA-F]{64})(?:[&#]|$)")


def check(secrets: Sequence[bytes], request: SignedRequest) -> Verified:
    """Verify one request; raises `SignatureError` alone."""
    given = header(request, HEADER)
    fields, body_held = _signed_body(request)
    messages = [raw(url) + fields for url in _urls(request.url)]

    def holds(secret: bytes) -> bool:
        # Compute all of them, whichever holds.
        held = [hmac_holds(secret, m, [given or ""], "base64", "sha1") for m in messages]
        return any(held) and body_held

    return Verified(require(holding_key(secrets, holds), given, HEADER), None)


def _signed_body(request: SignedRequest) -> tuple[bytes, bool]:
    """The body's part of the signed text, and whether the hash in the URL is the body's."""
    named = _BODY_HASH.search(request.url)
    if named is not None:
        digest = hashlib.sha256(request.body).hexdigest()
        return b"", hmac.compare_digest(digest, named[1].lower())
    if len(request.body) > _MOST_FORM_BYTES:
        return b"", False
    try:
        fields = set(form_fields(request.body))
    except MalformedBody:
        return b"", False
    return b"".join(name + value for name, value in sorted(fields)), True


def _urls(url: str) -> list[str]:
    found = _URL.fullmatch(url)
    if found is None:
        return [url]
    scheme, host, _, rest = found.groups(default="")
    standard = "443" if scheme.lower() == "https" else "80"
    return [url, f"{scheme}{host}{rest}", f"{scheme}{host}:{standard}{rest}"]


def sign(secret: bytes, request: SignedRequest) -> SignedRequest:
    """Sign one request: a form by its fields, any other body by its hash in the URL's query."""
    if request.body[:1] in (b"{", b"["):
        mark = "&" if "?" in request.url else "?"
        digest = hashlib.sha256(request.body).hexdigest()
        request = replace(request, url=f"{request.url}{mark}bodySHA256={digest}")
    fields, _ = _signed_body(request)
    mac = hmac.digest(secret, raw(request.url) + fields, "sha1")
    return with_headers(request, {HEADER: base64.b64encode(mac).decode()})


PRESET = Preset(
    event_type=(
        "[0] && 'batch'"
        " || MessageSid && ['message', MessageStatus || SmsStatus]"
        " || CallSid && ['call', CallStatus]"
    ),
    subject="MessageSid || CallSid || [0].subject",
    occurred_at="Timestamp || [0].time",
    dedup_key=(
        "[].[source, id] || MessageSid && [MessageSid, MessageStatus || SmsStatus]"
        " || CallSid && [CallSid, CallStatus, SequenceNumber]"
    ),
    attributes={
        "account_sid": "AccountSid",
        "error_code": "ErrorCode",
        "status": "MessageStatus || SmsStatus || CallStatus",
    },
    delivery_header="I-Twilio-Idempotency-Token",
    form="fields",
)
"""https://www.twilio.com/docs/messaging/guides/track-outbound-message-status and
https://www.twilio.com/docs/voice/api/call-resource#statuscallback: only a call's status events have
a `SequenceNumber`; the other requests, one for each step of a call, are identified by their
bytes. Event Streams sends a list of CloudEvents, which is one event here, of the type `batch`:
https://www.twilio.com/docs/events/webhook-quickstart.
"""

SCHEME = Scheme(PRESET, lambda _: check, lambda _: sign)
