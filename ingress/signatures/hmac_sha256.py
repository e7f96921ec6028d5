"""`hmac-sha256`: HMAC-SHA256 (RFC 2104, FIPS 180-4) of a template, in a header of any name.

Vendors' own schemes with that construction are layouts of this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ingress.signatures.request import (
    SignedRequest,
    Verified,
    Verifier,
    header,
    matching_key,
)
from ingress.timestamps import parse_timestamp
from streams.errors import SignatureError
from streams.signature_options import Encoding, HmacOptions, parse, template


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the signature stands and what it covers.

    `signed` alternates literal text and placeholders (`body`, `timestamp`, `url`, `method`),
    beginning with text. `tolerance_seconds` bounds the timestamp's distance from now, both ways.
    """

    header: str
    prefix: str = ""
    encoding: Encoding = "hex"
    signed: tuple[str, ...] = ("", "body", "")
    timestamp_header: str | None = None
    tolerance_seconds: float = 300


def verifier(options: Mapping[str, Any]) -> Verifier:
    """The scheme under these options.

    Raises:
        SignatureError: an option is unknown or wrong; it names it.
    """
    chosen = parse(HmacOptions, options)
    layout = Layout(
        chosen.header, chosen.prefix, chosen.encoding, template(chosen.signed),
        chosen.timestamp_header, chosen.tolerance_seconds,
    )  # fmt: skip
    return partial(check, layout)


def check(layout: Layout, secrets: Sequence[bytes], request: SignedRequest) -> Verified:
    """Verify one request against a layout; raises `SignatureError` alone.

    The MAC is computed before anything is refused: a request that lacks a header takes as long
    as one with a wrong signature, so no answer's time tells whether a source exists.
    """
    given = header(request, layout.header)
    sent_at = header(request, layout.timestamp_header) if layout.timestamp_header else None
    message = _message(layout.signed, request, sent_at or "")
    signature = (given or "").removeprefix(layout.prefix)
    key_index = matching_key(secrets, message, signature, layout.encoding)
    if given is None:
        raise SignatureError("missing_header", f"the request has no {layout.header} header")
    if not given.startswith(layout.prefix):
        raise SignatureError("bad_format", f"{layout.header} does not begin as it should")
    if key_index is None:
        raise SignatureError("mismatch", "the signature is of none of the source's secrets")
    return Verified(key_index, _signing_time(layout, request, sent_at))


def _signing_time(layout: Layout, request: SignedRequest, sent_at: str | None) -> float | None:
    if layout.timestamp_header is None:
        return None
    if sent_at is None:
        raise SignatureError("missing_header", f"no {layout.timestamp_header} header")
    seconds = parse_timestamp(sent_at)
    if seconds is None:
        raise SignatureError("bad_timestamp", f"{layout.timestamp_header} holds no time")
    if abs(request.now - seconds) > layout.tolerance_seconds:
        raise SignatureError("stale", "the signature's time is outside the tolerance")
    return seconds


def _message(signed: tuple[str, ...], request: SignedRequest, sent_at: str) -> bytes:
    if signed == ("", "body", ""):
        return request.body
    texts = {"timestamp": sent_at, "url": request.url, "method": request.method}
    parts = (
        request.body if index % 2 and part == "body"
        else (texts[part] if index % 2 else part).encode("utf-8", "surrogatepass")
        for index, part in enumerate(signed)
    )  # fmt: skip
    return b"".join(parts)
