"""A tenant's outgoing endpoints as the `tenants` topic carries them.

An endpoint's record holds its signing keys and its headers sealed, because a header may be a
credential. Nothing else in it is secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from streams.errors import VaultError
from streams.serde.delivery_records import MessageFormat
from streams.serde.records import SigningKey, TenantRecord
from streams.tenants.settings import Rate
from streams.tenants.source_keys import Reference, Secret
from streams.vault.key_encryption import Vault

CALLBACKS = "callbacks"
"""The id of the endpoint whose secret, retries and headers serve a tenant's `callback_url`s."""

LISTEN = "listen"
"""The id of the endpoint that `tidegate listen` sets; it has no circuit."""

DEFAULT_RETRY = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
"""Seconds before each further attempt (Standard Webhooks, "Retry schedule")."""

LONGEST_TIMEOUT_SECONDS = 60.0
_MOST_RETRIES = 50

Ordering = Literal["parallel", "fifo", "fifo_by_subject"]
Wait = Annotated[float, Field(ge=0, le=7 * 86_400, allow_inf_nan=False)]


class EndpointOptions(BaseModel):
    """What the body of `PUT /v1/tenants/{t}/endpoints/{id}` sets, beside secret and headers.

    `events` and `sources` are globs; a message must match one of each. Those of Tidegate's own have
    the source `tidegate`; docs/deliveries.md lists their types. `retry` has the seconds before each
    further attempt. `mapping` is the JMESPath expression of format `mapped`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = None
    events: tuple[str, ...] = ("*",)
    sources: tuple[str, ...] = ("*",)
    enabled: bool = True
    rate: Rate | None = None
    ordering: Ordering = "parallel"
    timeout_seconds: float = Field(default=15.0, ge=1, le=LONGEST_TIMEOUT_SECONDS)
    retry: tuple[Wait, ...] = Field(default=DEFAULT_RETRY, max_length=_MOST_RETRIES)
    format: MessageFormat = "cloudevents"
    mapping: str | None = None
    description: str = ""


class EndpointSettings(EndpointOptions):
    """An endpoint's settings as they are kept.

    The operator sets `created_at` and `set_at`, in milliseconds. Every `PUT` changes `set_at`, and
    a rotation does not: a `PUT` enables again what the stage disabled.
    """

    created_at: int = 0
    set_at: int = 0


def endpoint_record(
    vault: Vault,
    tenant_id: str,
    name: str,
    settings: EndpointSettings,
    keys: Sequence[SigningKey],
    headers: Mapping[str, str],
    at: int,
) -> TenantRecord:
    """The record that sets an endpoint; `keys` newest first, `at` in milliseconds."""
    sealed = vault.seal(tenant_id, headers_purpose(name), orjson.dumps(dict(headers)))
    body = settings.model_dump_json()
    return TenantRecord(tenant_id, "endpoint", name, False, body, (sealed,), at, tuple(keys))


def endpoint_settings(record: TenantRecord) -> EndpointSettings:
    return EndpointSettings.model_validate(orjson.loads(record.body))


def endpoint_headers(vault: Vault, record: TenantRecord) -> dict[str, str]:
    """The headers that every request to the endpoint carries.

    Raises:
        VaultError: they were sealed under another vault key, or the record has none.
    """
    if len(record.secrets) != 1:
        raise VaultError(f"endpoint {record.id} has no sealed headers: set it again")
    (sealed,) = record.secrets
    opened = vault.open(record.tenant_id, headers_purpose(record.id), sealed)
    headers: dict[str, str] = orjson.loads(opened)
    return headers


def endpoint_key(vault: Vault, tenant_id: str, name: str, secret: Secret) -> SigningKey:
    """The newest signing key of an endpoint."""
    if isinstance(secret, Reference):
        return SigningKey(None, secret.text)
    return SigningKey(vault.seal(tenant_id, key_purpose(name), secret))


def open_key(vault: Vault, record: TenantRecord, sealed: bytes) -> bytes:
    """The secret of one of the endpoint's keys.

    Raises:
        VaultError: the secret was sealed under another vault key.
    """
    return vault.open(record.tenant_id, key_purpose(record.id), sealed)


def key_purpose(name: str) -> str:
    """The purpose to which an endpoint's sealed secret is bound."""
    return f"endpoint secret {name}"


def headers_purpose(name: str) -> str:
    """The purpose to which an endpoint's sealed headers are bound."""
    return f"endpoint headers {name}"
