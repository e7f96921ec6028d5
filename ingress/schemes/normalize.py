"""Makes the normalized fields of an envelope from a signed body.

A preset, or the source's own mapping over it, says where each field is. A missing or unusable field
gets a fallback and never causes a refusal: an event kept under its payload's hash can still be
looked at, while a refused event is gone. Only an event type or dedup key that the source's own
mapping names must be there, because that mapping was written for exactly these bodies.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jmespath.exceptions import JMESPathError

from ingress.formats.document import begins_as_json, json_document
from ingress.formats.form import form_document
from ingress.formats.paths import Path, compile_path
from ingress.schemes import SCHEMES, Verified
from ingress.schemes.preset import GENERIC, Preset
from ingress.schemes.values import key_of, milliseconds_of, name_of, text_of
from streams.errors import ConfigError, MalformedBody, Misfit

UNKNOWN_TYPE = "unknown"
_MAX_TYPE = 200
_NOT_IN_A_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that CloudEvents 1.0 forbids in a String; an event type becomes one."""
_REQUIRED = ("event_type", "dedup_key")
_HEADER_TYPE = re.compile(r"[A-Za-z0-9_./:-]{1,64}")
_VISIBLE = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Normalized:
    """The fields of one event; `occurred_at` in milliseconds since the epoch, UTC.

    `payload_hash` is the SHA-256 of the raw body. Only `delivery_id` and the beginning of a GitHub
    or Shopify event type come from unsigned headers.
    """

    event_type: str
    subject: str | None
    occurred_at: int | None
    dedup_key: str
    payload_hash: bytes
    delivery_id: str | None
    attributes: dict[str, str]


class Normalizer:
    """A preset with a source's mapping over it, compiled once; safe in threads.

    `dedup_by` is the source's setting (`SourceSettings`).

    Raises:
        ConfigError: names the key of the mapping that is an unknown field or no JMESPath.
    """

    def __init__(self, scheme: str, mapping: Mapping[str, Any], dedup_by: str = "key") -> None:
        preset = _overridden(_preset(scheme), mapping)
        self._preset = preset
        self._dedup_by, _, self._dedup_header = dedup_by.partition(":")
        self._required = {name: mapping[name] for name in _REQUIRED if name in mapping}
        self._event_type = _compile("event_type", preset.event_type)
        self._subject = _compile("subject", preset.subject)
        self._occurred_at = _compile("occurred_at", preset.occurred_at)
        self._dedup_key = _compile("dedup_key", preset.dedup_key) if preset.dedup_key else None
        self._attributes = {
            name: _compile(f"attributes.{name}", path) for name, path in preset.attributes.items()
        }

    @property
    def headers(self) -> tuple[str, ...]:
        """Names of the headers that `normalize` reads; none of them is signed."""
        named = (self._preset.type_header, self._preset.delivery_header, self._dedup_header)
        return tuple(name for name in named if name)

    def normalize(
        self,
        headers: Mapping[str, str],
        body: bytes,
        verified: Verified | None = None,
        event_id: str = "",
    ) -> Normalized:
        """The fields of a body whose signature held; `verified` says what else was signed.

        `event_id` is the id that the event has if it is new; with `dedup_by` `request` it always
        is.

        Raises:
            MalformedBody: the body is not JSON (RFC 8259: UTF-8, no NaN), is nested too deep, or
                is no form although the preset takes one.
            Misfit: the source's own mapping of `event_type` or `dedup_key` finds nothing usable,
                its `dedup_by` names a header that the request lacks, or there are more than a
                million values.
        """
        document = parse(self._preset, body)
        digest = hashlib.sha256(body)
        event_type = self._type(document, headers)
        key = self._identity(document, headers, event_id)
        self._require(event_type=event_type != UNKNOWN_TYPE, dedup_key=key is not None)
        if key is None and verified is not None:
            key = _signed_key(body, verified)
        return Normalized(
            event_type=event_type,
            subject=text_of(self._subject(document)),
            occurred_at=milliseconds_of(self._occurred_at(document)),
            dedup_key=key or f"sha256:{_hash_of_document(self._preset, body, digest)}",
            payload_hash=digest.digest(),
            delivery_id=visible(headers.get(self._preset.delivery_header or "")),
            attributes=self._attribute_values(document),
        )

    def lacks_type_header(self, headers: Mapping[str, str]) -> str | None:
        """The name of the header with the event's type, if there must be one and none is usable."""
        name = self._preset.type_header
        usable = name is None or _HEADER_TYPE.fullmatch(headers.get(name, ""))
        return None if usable else name

    def _type(self, document: Any, headers: Mapping[str, str]) -> str:
        named = name_of(self._event_type(document))
        if self._preset.type_header:
            if self.lacks_type_header(headers):
                return UNKNOWN_TYPE
            first = re.sub("[/:]", ".", headers[self._preset.type_header])
            named = f"{first}.{named}" if named else first
        named = _NOT_IN_A_NAME.sub("", named.removeprefix(self._preset.type_prefix))
        return named[:_MAX_TYPE] or UNKNOWN_TYPE

    def _identity(self, document: Any, headers: Mapping[str, str], event_id: str) -> str | None:
        """What the source's setting and the body identify the event by, if there is anything."""
        if self._dedup_by == "request" or (self._preset.own_event and self._dedup_by == "key"):
            return f"request:{event_id}"
        if self._dedup_by == "header":
            given = visible(headers.get(self._dedup_header))
            if given is None:
                name = self._dedup_header
                raise Misfit("dedup_key", f"dedup_by: the request has no usable {name} header")
            return f"header:{given}"
        return key_of(self._dedup_key(document)) if self._dedup_key else None

    def _require(self, **found: bool) -> None:
        for name, expression in self._required.items():
            if not found[name]:
                raise Misfit(name, f"mapping.{name} ({expression!r}) finds nothing usable in it")

    def _attribute_values(self, document: Any) -> dict[str, str]:
        found = ((name, text_of(path(document))) for name, path in self._attributes.items())
        return {name: text for name, text in found if text is not None}


def _hash_of_document(preset: Preset, body: bytes, digest: hashlib._Hash) -> str:
    """The hash of the JSON that a vendor sends, which is the same where a form wraps it."""
    if preset.form != "payload" or not body or begins_as_json(body):
        return digest.hexdigest()
    payload = form_document(body)["payload"]
    return hashlib.sha256(str(payload).encode()).hexdigest()


def visible(value: str | None) -> str | None:
    """An unsigned header's value, if it is at most 200 visible ASCII characters."""
    return value if value is not None and _VISIBLE.fullmatch(value) else None


def _preset(scheme: str) -> Preset:
    known = SCHEMES.get(scheme)
    return GENERIC if known is None else known.preset


def _overridden(preset: Preset, mapping: Mapping[str, Any]) -> Preset:
    known = {"event_type", "subject", "occurred_at", "dedup_key", "attributes"}
    for name, value in mapping.items():
        if name not in known:
            raise ConfigError(f"mapping.{name}: no such field; use {', '.join(sorted(known))}")
        if not isinstance(value, dict if name == "attributes" else str):
            raise ConfigError(f"mapping.{name}: of the wrong kind")
    if "event_type" in mapping:
        preset = replace(preset, type_header=None, type_prefix="")
    if "dedup_key" in mapping:
        preset = replace(preset, own_event=False)
    return replace(preset, **mapping)


def _compile(name: str, expression: str) -> Path:
    try:
        return compile_path(expression)
    except JMESPathError as error:
        raise ConfigError(f"mapping.{name}: not a JMESPath expression: {error}") from error


def parse(preset: Preset, body: bytes) -> Any:
    """The document that a preset's expressions read; None for a body that may be empty.

    Only the body decides whether it is a form or JSON. The Content-Type is not signed, and a
    captured body that is sent under another type must not become another event.

    Raises:
        MalformedBody: the body is neither.
        Misfit: the body has more values than one document may have.
    """
    if not body and preset.may_be_empty:
        return None
    if preset.form is None or begins_as_json(body):
        return json_document(body)
    fields = form_document(body)
    payload = None if preset.form == "fields" else fields.get("payload")
    if isinstance(payload, str):
        return json_document(payload.encode())
    if preset.form == "payload":
        raise MalformedBody("the body is neither JSON nor a form with one field named payload")
    return fields


def _signed_key(body: bytes, verified: Verified) -> str | None:
    """The dedup key from signed values outside the body: the message's id or, without a body, time.

    All deliveries without a body have the same hash, so without this key they would be one event.
    """
    if verified.message_id is not None:
        return key_of(verified.message_id)
    if not body and verified.timestamp is not None:
        return f"sent:{round(verified.timestamp * 1000)}"
    return None
