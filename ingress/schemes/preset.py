"""What each scheme's sender puts where: JMESPath over the body, as data.

A body is signed, most headers are not: apart from an event's name and a delivery's id, which some
vendors put nowhere else, nothing is read from an unsigned header, and neither takes part in the
fingerprint. A dedup key is the event's id, or an entity and its revision, never the entity alone;
where a body has neither, the hash of its bytes stands in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Preset:
    """Expressions for the normalized fields; None leaves the field to its fallback.

    An event type of several parts is joined by dots. `type_prefix` is cut off it; `type_header`
    names the header that it begins with; `delivery_header` the one that carries the vendor's
    delivery id. `form`: the vendor may send a form, whose fields are the document, or one of
    whose fields, `payload`, is the document in JSON. `may_be_empty`: it may send no body at all.
    """

    event_type: str
    subject: str
    occurred_at: str
    dedup_key: str | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    type_prefix: str = ""
    type_header: str | None = None
    delivery_header: str | None = None
    form: Literal["fields", "payload"] | None = None
    may_be_empty: bool = False


GENERIC = Preset(
    event_type="type || event_type || event",
    subject="subject || data.id",
    occurred_at="occurred_at || time || timestamp || created_at || created",
    dedup_key="id || event_id",
)
"""Covers CloudEvents in structured mode and what most vendors' bodies look like."""
