"""Checks a request's headers before its body is read, and picks the facts to keep from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multidict import CIMultiDict, CIMultiDictProxy

from ingress.receive.event import Facts
from ingress.receive.problems import BAD_REQUEST, HEADERS_TOO_LARGE, UNSUPPORTED, Refused
from ingress.schemes.normalize import visible
from streams.process.wall_clock import wall_ms
from streams.tracing.spans import carried_on

Headers = CIMultiDictProxy[str]

MAX_HEAD_BYTES = 64 * 1024
"""The limit of one request's head. No vendor sends a tenth of it, and it is held in memory before
the sender is known."""

_NEVER_AN_EVENT = ("audio/", "font/", "image/", "multipart/", "video/")
_NEVER_AN_EVENT_EITHER = frozenset(
    {"application/gzip", "application/pdf", "application/x-gzip", "application/zip"}
)
_MOST_LENGTH_DIGITS = 19
_AROUND_HEADER = len(": \r\n")


def check(headers: Headers, raw: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a request that can be refused from its headers alone, whoever its sender is.

    `raw` are the same headers as they came.

    Compressed bodies are refused and never inflated: a signature covers the bytes as they came, and
    a compression bomb stays as small as it was sent. A media type is refused only if no preset
    could ever read it: vendors send JSON as text, as a form, as octets or without any type.

    Raises:
        Refused: 400 for a length that no body has; 431 for headers that are too large together; 415
            for a content or transfer coding (RFC 9110, section 8.4; RFC 9112, section 7) or such a
            type.
    """
    if len(headers.get("Content-Length", "")) > _MOST_LENGTH_DIGITS:
        raise Refused(BAD_REQUEST, "no body has the Content-Length that was sent")
    if sum(len(name) + len(value) + _AROUND_HEADER for name, value in raw) > MAX_HEAD_BYTES:
        raise Refused(HEADERS_TOO_LARGE)
    if "Content-Encoding" in headers and _codings(headers, "Content-Encoding") - {"identity"}:
        raise Refused(UNSUPPORTED, "a body with a content encoding is not read")
    if "Transfer-Encoding" in headers and _codings(headers, "Transfer-Encoding") - {"chunked"}:
        raise Refused(
            UNSUPPORTED,
            "a body in this transfer coding is not read, only one that is chunked or has a length",
        )
    type_ = media_type(headers)
    if type_.startswith(_NEVER_AN_EVENT) or type_ in _NEVER_AN_EVENT_EITHER:
        raise Refused(UNSUPPORTED, "no event has this content type")


def _codings(headers: Headers, name: str) -> set[str]:
    named = ",".join(headers.getall(name, ())).split(",")
    return {each.strip().lower() for each in named} - {""}


def unambiguous(headers: Headers) -> Headers:
    """The headers less every one that came more than once.

    A repeated signature header thus counts as missing. Otherwise the result would depend on
    whether a scheme reads its first value or its last.
    """
    if len(set(map(str.lower, headers))) == len(headers):
        return headers
    names = [name.lower() for name, _ in headers.items()]
    once = ((name, value) for name, value in headers.items() if names.count(name.lower()) == 1)
    return CIMultiDictProxy(CIMultiDict(once))


def forwarded_scheme(headers: Headers) -> str | None:
    """The scheme by which the sender reached the outermost proxy; None if no proxy names one.

    Every proxy on the way may add an element, or a header of the same name, after those of the
    proxies before it. The first one is thus of the proxy that the sender reached. Case does not
    matter (RFC 7239; RFC 3986, section 3.1).
    """
    named = _first(headers, "X-Forwarded-Proto") or _proto(_first(headers, "Forwarded"))
    return named if named in ("http", "https") else None


def _first(headers: Headers, name: str) -> str:
    """The first element of a header that is a list, in lower case; empty without one."""
    return next(iter(headers.getall(name, ())), "").partition(",")[0].strip().lower()


def _proto(element: str) -> str:
    pairs = (pair.partition("=") for pair in element.split(";"))
    return next((value.strip(' "') for name, _, value in pairs if name.strip() == "proto"), "")


def media_type(headers: Mapping[str, str]) -> str:
    """Type and subtype in lower case, without parameters; empty if there are none."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def says_json(headers: Mapping[str, str]) -> bool:
    """Whether the sender declares its body to be JSON (RFC 8259; RFC 6839 for `+json`)."""
    type_ = media_type(headers)
    return type_ == "application/json" or type_.endswith("+json")


def facts(headers: Mapping[str, str]) -> Facts:
    """The facts to keep beside a request's body; `received_at` is now."""
    return Facts(
        content_type=_content_type(headers.get("Content-Type")),
        request_id=visible(headers.get("X-Request-Id")),
        traceparent=carried_on(headers.get("traceparent")),
        received_at=wall_ms(),
    )


def _content_type(given: str | None) -> str:
    if given is None or not given.isascii() or not given.isprintable():
        return "application/octet-stream"
    return given[:200]
