"""Answers to the unsigned questions that vendors ask before they deliver to a URL.

Such a question is not signed, so a stranger can ask it, too. An answer repeats at most 512 visible
ASCII characters, as plain text or JSON that no browser takes for a page, and tells nothing of a
source except that it exists and has this scheme. A scheme answers only its own vendor's question.
"""

from __future__ import annotations

import hmac
import re
from urllib.parse import parse_qs, urlsplit

import orjson
from pydantic import Field

from ingress.schemes.options import SchemeOptions
from ingress.schemes.request import SignedRequest, header, raw
from ingress.schemes.scheme import Answer

_REPEATABLE = re.compile(r"[\x21-\x7e]{1,512}")
_PING = re.compile(rb"webhook_id=[0-9]{1,20}")
_ORIGIN = r"^[A-Za-z0-9.-]{1,253}$"


class GenericOptions(SchemeOptions):
    """Base of the generic schemes' options.

    With `webhook_origin`, a validation request of CloudEvents from that origin is answered.
    """

    webhook_origin: str | None = Field(default=None, pattern=_ORIGIN)


class MetaOptions(SchemeOptions):
    """`verify_token`: the token that was typed at Meta beside the URL."""

    verify_token: str | None = Field(default=None, min_length=1, max_length=200)


def repeated(value: object) -> Answer | None:
    """The answer that is the value as plain text; None for a value that is not repeated."""
    if not isinstance(value, str) or not _REPEATABLE.fullmatch(value):
        return None
    return Answer(200, value.encode(), content_type="text/plain")


def webhook_validation(options: GenericOptions, request: SignedRequest) -> Answer | None:
    """https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md, section 4."""
    origin = header(request, "WebHook-Request-Origin")
    allowed = options.webhook_origin
    if request.method != "OPTIONS" or origin is None or allowed is None:
        return None
    if origin.lower() != allowed.lower():
        return None
    granted = {"WebHook-Allowed-Origin": allowed, "WebHook-Allowed-Rate": "*", "Allow": "POST"}
    return Answer(200, b"", headers=granted)


def meta(options: MetaOptions, request: SignedRequest) -> Answer | None:
    """https://developers.facebook.com/docs/graph-api/webhooks/getting-started"""
    given = _parameter(request, "hub.verify_token")
    known = options.verify_token
    if known is None or _parameter(request, "hub.mode") != "subscribe":
        return None
    if not hmac.compare_digest(raw(given or ""), raw(known)):
        return None
    return repeated(_parameter(request, "hub.challenge"))


def dropbox(_: SchemeOptions, request: SignedRequest) -> Answer | None:
    """https://www.dropbox.com/developers/reference/webhooks"""
    return repeated(_parameter(request, "challenge"))


def okta(_: SchemeOptions, request: SignedRequest) -> Answer | None:
    """https://developer.okta.com/docs/concepts/event-hooks/"""
    asked = header(request, "X-Okta-Verification-Challenge")
    if request.method != "GET" or asked is None or not _REPEATABLE.fullmatch(asked):
        return None
    return Answer(200, orjson.dumps({"verification": asked}))


def woocommerce(_: SchemeOptions, request: SignedRequest) -> Answer | None:
    """The ping when a webhook is saved, which stays inactive unless it is answered 200.

    https://github.com/woocommerce/woocommerce, `deliver_ping` in class-wc-webhook.php
    """
    pinged = request.method == "POST" and _PING.fullmatch(request.body)
    return Answer(200, b"") if pinged else None


def _parameter(request: SignedRequest, name: str) -> str | None:
    """The value of a parameter that the query of a GET has once."""
    if request.method != "GET":
        return None
    try:
        values = parse_qs(urlsplit(request.url).query, max_num_fields=32).get(name, [])
    except ValueError:
        return None
    return values[0] if len(values) == 1 else None
