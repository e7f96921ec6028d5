"""What a request's headers may say before anything else is believed, and what is kept of them."""

from __future__ import annotations

from collections.abc import Mapping

from multidict import CIMultiDict, CIMultiDictProxy

from ingress.receive.event import Facts
from ingress.receive.problems import BAD_REQUEST, UNSUPPORTED, Refused
from ingress.receive.tracing import continued_trace
from ingress.schemes.normalize import visible
from streams.process.wall_clock import wall_ms

Headers = CIMultiDictProxy[str]

_NEVER_AN_EVENT = ("audio/", "font/", "image/", "multipart/", "video/")
_NEVER_AN_EVENT_EITHER = frozenset(
    {"application/gzip", "application/pdf", "application/x-gzip", "application/zip"}
)


_LONGEST_LENGTH = 19


def check(headers: Headers) -> None:
    """Refuse what can be refused unread, whoever sends it.

    Compressed bodies are not inflated: a signature covers the bytes as they came, and a bomb stays
    as small as it was sent. Of media types only those that no preset could ever read are refused:
    vendors send JSON as text, as a form, as octets or as nothing at all.

    Raises:
        Refused: 400 for a length that no body has; 415 for a content or transfer coding (RFC 9110,
            section 8.4; RFC 9112, section 7) or such a type.
    """
    if len(headers.get("Content-Length", "")) > _LONGEST_LENGTH:
        raise Refused(BAD_REQUEST, "no body has that length")
    if "Content-Encoding" in headers and _codings(headers, "Content-Encoding") - {"identity"}:
        raise Refused(UNSUPPORTED, "send the body without a content encoding")
    if "Transfer-Encoding" in headers and _codings(headers, "Transfer-Encoding") - {"chunked"}:
        raise Refused(UNSUPPORTED, "send the body chunked or with its length")
    type_ = media_type(headers)
    if type_.startswith(_NEVER_AN_EVENT) or type_ in _NEVER_AN_EVENT_EITHER:
        raise Refused(UNSUPPORTED, "no event has this content type")


def _codings(headers: Headers, name: str) -> set[str]:
    named = ",".join(headers.getall(name, ())).split(",")
    return {each.strip().lower() for each in named} - {""}


def unambiguous(headers: Headers) -> Headers:
    """The headers less every one that came more than once.

    A second signature is neither the one that counts nor one that is overlooked: whoever reads the
    first, the last or both of them sees that there is none.
    """
    if len(set(map(str.lower, headers))) == len(headers):
        return headers
    names = [name.lower() for name, _ in headers.items()]
    once = ((name, value) for name, value in headers.items() if names.count(name.lower()) == 1)
    return CIMultiDictProxy(CIMultiDict(once))


def media_type(headers: Mapping[str, str]) -> str:
    """Type and subtype in lower case, without parameters; empty if there are none."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def says_json(headers: Mapping[str, str]) -> bool:
    """Whether the sender declares its body to be JSON (RFC 8259; RFC 6839 for `+json`)."""
    type_ = media_type(headers)
    return type_ == "application/json" or type_.endswith("+json")


def facts(headers: Mapping[str, str]) -> Facts:
    """What is kept of a request beside its body; it is received now."""
    return Facts(
        content_type=_content_type(headers.get("Content-Type")),
        request_id=visible(headers.get("X-Request-Id")),
        traceparent=continued_trace(headers.get("traceparent")),
        received_at=wall_ms(),
    )


def _content_type(given: str | None) -> str:
    if given is None or not given.isascii() or not given.isprintable():
        return "application/octet-stream"
    return given[:200]
