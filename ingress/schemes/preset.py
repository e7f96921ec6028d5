"""Presets: data that says, as JMESPath over the body, where each scheme's sender puts its fields.

The body is signed, but most headers are not. Only two fields are read from unsigned headers: an
event's name and a delivery's id, because some vendors put them nowhere else. Neither is part of the
fingerprint. A dedup key is the event's id, or an entity and its revision, but never the entity
alone. If a body has neither, the hash of its bytes is the key. An `id` is the event's only beside
other fields that show the body to be an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Preset:
    """Expressions for the normalized fields; None leaves the field to its fallback.

    Several parts of an event type are joined by dots. `type_prefix` is cut off the event type;
    `type_header` names the header that the event type begins with; `delivery_header` names the one
    that carries the vendor's delivery id. With `form` the vendor may send a form: its fields are
    the document (`fields`), or its field `payload` is the document in JSON (`payload`), or
    `payload` if it is there and the fields if not (`either`). With `may_be_empty` the vendor may
    send no body at all. With `own_event` each request is an event of its own, because the vendor's
    bodies repeat.
    """

    event_type: str
    subject: str
    occurred_at: str
    dedup_key: str | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    type_prefix: str = ""
    type_header: str | None = None
    delivery_header: str | None = None
    form: Literal["fields", "payload", "either"] | None = None
    may_be_empty: bool = False
    own_event: bool = False


GENERIC = Preset(
    event_type="type || event_type || event",
    subject="subject || data.id",
    occurred_at="occurred_at || time || timestamp || created_at || created",
    dedup_key=(
        "specversion && [source, id] || (type || event_type || event) && data && (id || event_id)"
    ),
)
"""Covers CloudEvents in structured mode and what most vendors' bodies look like.

An id is the event's if it is beside the event's type and its data. Otherwise it may be the id of an
entity, whose next change must not count as the same event.
"""
