"""The state of a record of `tenants` in the audit: its settings, and digests of its secrets."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from streams.serde.records import TenantRecord


def recorded(record: TenantRecord | None) -> str | None:
    """Return a record's state as JSON; None if there is none.

    Secrets are sealed in the record, and the digests are of what is sealed.
    """
    if record is None:
        return None
    sealed = (key.sealed for key in record.keys if key.sealed is not None)
    shown = {"disabled": record.disabled, **_settings(record.body)}
    return orjson.dumps(
        shown | {"secrets": [_digest(each) for each in (*record.secrets, *sealed)]}
    ).decode()


def _settings(body: str) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()[:16]
