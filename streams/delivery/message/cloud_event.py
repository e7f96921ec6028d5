"""CloudEvents 1.0 in its structured JSON form.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import orjson

from ingress.formats.document import json_document
from streams.delivery.message.message import Message
from streams.errors import Misfit
from streams.http.moments import written

CONTENT_TYPE = "application/cloudevents+json"
OCTETS = "application/octet-stream"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = r"[A-Za-z0-9!#$&^_.+-]+"
_MEDIA_TYPE = re.compile(rf"{_NAME}/{_NAME}(?: *;[ -~]*)?")
_JSON = re.compile(rf"(?:(?:application|text)/json|{_NAME}/{_NAME}\+json) *(?:;.*)?", re.I)
_TAKEN = frozenset(
    {
        "specversion",
        "id",
        "type",
        "source",
        "subject",
        "time",
        "data",
        "datacontenttype",
        "dataschema",
        "traceparent",
        "tracestate",
    }
)
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 65536))
    + "]"
)
"""Characters that CloudEvents forbids in a String."""


def cloud_event(message: Message) -> bytes:
    """The document; `data` has the very bytes of a body that is JSON, else `data_base64`.

    A body is JSON if it has that type, or if it is a JSON object or array whatever its type: the
    type is not signed. JSON that not every receiver can read counts as none: it is not UTF-8, has a
    lone surrogate or a number beyond a double, is nested deeper than 1,023 or has more than a
    million values.
    """
    body, typed = message.data, _JSON.fullmatch(message.content_type) is not None
    if (typed or body.lstrip()[:1] in (b"{", b"[")) and _is_json(body):
        head = _head(message, message.content_type if typed else "application/json")
        return b"".join((orjson.dumps(head)[:-1], b',"data":', body, b"}"))
    known = _MEDIA_TYPE.fullmatch(message.content_type) is not None
    head = _head(message, message.content_type if known else OCTETS)
    return orjson.dumps({**head, "data_base64": base64.b64encode(body).decode()})


def _is_json(body: bytes) -> bool:
    """Whether a body is exactly one JSON value, and one that may stand inside another."""
    try:
        outer = json_document(b"[%b]" % body)
    except Misfit:
        return False
    return len(outer) == 1  # `1,2` would be two values, nothing none


def _head(message: Message, content_type: str) -> dict[str, str]:
    source = f"/tenants/{quote(message.tenant_id, '')}/sources/{quote(message.source, '')}"
    optional = {
        "subject": _string(message.subject or ""),
        "time": _rfc3339(message.time),
        "datacontenttype": content_type,
        "traceparent": _string(message.traceparent or ""),
    }
    return {
        "specversion": "1.0",
        "id": message.message_id,
        "source": source,
        "type": _string(message.type) or "unknown",
        **{name: text for name, text in optional.items() if text},
        **_extensions(message.attributes),
    }


def _extensions(attributes: Mapping[str, str]) -> dict[str, str]:
    """The attributes under names that CloudEvents takes: lower-case letters and digits.

    A name that is taken gets a number, in the order of the original names; nothing is left out.
    """
    named: dict[str, str] = {}
    for original in sorted(attributes):
        plain = re.sub(r"[^a-z0-9]", "", original.lower()) or "attribute"
        name, number = plain, 1
        while name in _TAKEN or name in named:
            number += 1
            name = f"{plain}{number}"
        named[name] = _string(attributes[original])
    return named


def _string(text: str) -> str:
    return _FORBIDDEN.sub("", text)


def _rfc3339(milliseconds: int) -> str:
    """The time in UTC; empty for one that RFC 3339 cannot write (before year 1, after 9999)."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return ""
    return written(moment)
