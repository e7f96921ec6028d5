"""Tenants and their sources as the `tenants` topic carries them.

A source's record holds its secrets sealed (`source_keys`); nothing else in it is secret.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from streams.serde.records import TenantRecord
from streams.serde.sizes import MAX_BODY_BYTES
from streams.tenants.limits import checked
from streams.tenants.source_keys import Secret, signing_key
from streams.topology.limits import Limit
from streams.vault.key_encryption import Vault

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""The allowed form of a tenant's id and a source's name: safe in paths, keys and topics."""

OWN_SOURCE = "tidegate"
"""The source of messages that no vendor sent, such as a question to a person. No source of a tenant
has this name: a receiver could not tell what somebody submitted from what Tidegate says."""

DEFAULT_BODY_BYTES = 1024 * 1024


class Rate(BaseModel):
    """At most `count` deliveries in `seconds`, at an even pace of `count / seconds` a second.

    A burst is less than a tenth of `count`, so at most 1.1 times `count` pass in any `seconds`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    count: int = Field(ge=1, le=1_000_000)
    seconds: float = Field(ge=1, le=86_400)

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


class TenantSettings(BaseModel):
    """Body of `PUT /v1/tenants/{t}`; without a rate, deliveries are not limited.

    While jobs of several tenants wait, each starts as many as its `weight` says. `limits` are the
    tenant's own (`tenants/limits.py`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    display_name: str = ""
    rate: Rate | None = None
    weight: float = Field(default=1, ge=0.01, le=100, allow_inf_nan=False)
    limits: Annotated[tuple[Limit, ...], AfterValidator(checked)] = ()


class SourceSettings(BaseModel):
    """Body of `PUT /v1/tenants/{t}/sources/{source}` without its secret.

    `mapping` overrides the scheme's preset: `event_type`, `subject`, `occurred_at`,
    `dedup_key` are JMESPath expressions over the JSON body, `attributes` maps names to such.
    `options` are the scheme's own (header names, prefix, encoding, tolerance in seconds).
    `dedup_by` says what makes two deliveries one event: `key`, the dedup key of the mapping or
    the preset; `header:NAME`, a header's value; `request`, nothing, so that each is an event of its
    own. `max_body_bytes` is at most 25 MiB.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheme: str
    mapping: dict[str, str | dict[str, str]] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    dedup_by: str = Field(default="key", pattern=r"^(key|request|header:[A-Za-z0-9_-]{1,64})$")
    callback_url: str | None = None
    max_body_bytes: int = Field(default=DEFAULT_BODY_BYTES, ge=1, le=MAX_BODY_BYTES)


def source_record(
    vault: Vault,
    tenant_id: str,
    name: str,
    settings: SourceSettings,
    secrets: Sequence[Secret],
    at: int,
) -> TenantRecord:
    """The record that sets a source; `secrets` newest first, `at` in milliseconds."""
    keys = tuple(signing_key(vault, tenant_id, name, secret) for secret in secrets)
    body = settings.model_dump_json()
    return TenantRecord(tenant_id, "source", name, False, body, updated_at=at, keys=keys)


def source_settings(record: TenantRecord) -> SourceSettings:
    return SourceSettings.model_validate(orjson.loads(record.body))


def tenant_settings(record: TenantRecord) -> TenantSettings:
    return TenantSettings.model_validate(orjson.loads(record.body))
