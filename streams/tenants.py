"""Tenants and their sources as the `tenants` topic carries them.

Secrets lie sealed in the record, bound to tenant and source; nothing else in it is secret.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from streams.data_key import key_purpose
from streams.serde.records import TenantRecord
from streams.signature_options import OPTIONS
from streams.vault import Vault

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What a tenant's id and a source's name may be: safe in paths, keys and topics."""

SCHEMES = tuple(OPTIONS)
"""The signing schemes that ingress verifies; a test holds its table against this list."""


DEFAULT_BODY_BYTES = 1024 * 1024


class TenantSettings(BaseModel):
    """Body of `PUT /v1/tenants/{t}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    display_name: str = ""


class SourceSettings(BaseModel):
    """Body of `PUT /v1/tenants/{t}/sources/{source}`, less its secret.

    `mapping` overrides the scheme's preset: `event_type`, `subject`, `occurred_at`,
    `dedup_key` are JMESPath expressions over the JSON body, `attributes` maps names to such.
    `options` are the scheme's own (header names, prefix, encoding, tolerance in seconds).
    `max_body_bytes` is at most 25 MiB.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheme: str
    mapping: dict[str, str | dict[str, str]] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    callback_url: str | None = None
    max_body_bytes: int = Field(default=DEFAULT_BODY_BYTES, ge=1, le=25 * 1024 * 1024)


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


def resealed(vault: Vault, record: TenantRecord) -> TenantRecord:
    """The record with every secret under the vault's first key; equal if they all were.

    Raises:
        VaultError: a secret lies under none of the vault's keys.
    """
    purpose = key_purpose(record.id) if record.kind == "data_key" else _purpose(record.id)
    again = (vault.reseal(record.tenant_id, purpose, secret) for secret in record.secrets)
    return replace(record, secrets=tuple(again))


def _purpose(source: str) -> str:
    return f"source secret {source}"
