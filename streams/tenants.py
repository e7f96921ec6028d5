"""Tenants and their sources as the `tenants` topic carries them.

Secrets lie sealed in the record, bound to tenant and source; nothing else in it is secret.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from streams.serde.records import TenantRecord
from streams.signature_options import OPTIONS
from streams.vault import Vault

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What a tenant's id and a source's name may be: safe in paths, keys and topics."""

SCHEMES = tuple(OPTIONS)
"""The signing schemes that ingress verifies; a test holds its table against this list."""


class TenantSettings(BaseModel):
    """Body of `PUT /v1/tenants/{t}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    display_name: str = ""


class SourceSettings(BaseModel):
    """Body of `PUT /v1/tenants/{t}/sources/{source}`, less its secret.

    `mapping` overrides the scheme's preset: `event_type`, `subject`, `occurred_at`,
    `dedup_key` are JMESPath expressions over the JSON body, `attributes` maps names to such.
    `options` are the scheme's own (header names, prefix, encoding, tolerance in seconds).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheme: str
    mapping: dict[str, str | dict[str, str]] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    callback_url: str | None = None


def source_record(
    vault: Vault, tenant_id: str, name: str, settings: SourceSettings, secrets: list[bytes], at: int
) -> TenantRecord:
    """The record that sets a source; `secrets` newest first, `at` in milliseconds."""
    sealed = tuple(vault.seal(tenant_id, _purpose(name), secret) for secret in secrets)
    body = settings.model_dump_json()
    return TenantRecord(tenant_id, "source", name, False, body, sealed, at)


def source_settings(record: TenantRecord) -> SourceSettings:
    """The settings in a source's record."""
    return SourceSettings.model_validate(orjson.loads(record.body))


def source_secrets(vault: Vault, record: TenantRecord) -> list[bytes]:
    """The secrets in a source's record, newest first.

    Raises:
        VaultError: the record was sealed under another key.
    """
    purpose = _purpose(record.id)
    return [vault.open(record.tenant_id, purpose, sealed) for sealed in record.secrets]


def _purpose(source: str) -> str:
    return f"source secret {source}"
