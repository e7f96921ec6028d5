"""The sources that may send, as the fold of the `tenants` topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ingress.normalize import Normalizer
from ingress.signatures import Verifier, verifier
from streams.errors import ConfigError, PoisonRecord, SignatureError, VaultError
from streams.serde import keys
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord
from streams.tenants import SourceSettings, source_secrets, source_settings
from streams.vault import Vault


@dataclass(frozen=True, slots=True)
class Source:
    """One source of one tenant, ready to verify and normalize; `secrets` newest first."""

    tenant_id: str
    name: str
    settings: SourceSettings
    verify: Verifier
    normalizer: Normalizer
    secrets: tuple[bytes, ...] = field(repr=False)


class SourceTable:
    """Every source by tenant and name; one thread writes, any may look up.

    A source is usable without a record of its tenant, but not once that record is disabled.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._sources: dict[str, dict[str, Source]] = {}
        self._disabled: set[str] = set()
        self._erased: set[str] = set()

    def lookup(self, tenant_id: str, name: str) -> Source | None:
        """The source, or None where it, or its tenant, is unknown or disabled."""
        source = self._sources.get(tenant_id, {}).get(name)
        if source is None or tenant_id in self._disabled or tenant_id in self._erased:
            return None
        return source

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Fold one record in.

        Raises:
            PoisonRecord: it cannot be understood or opened. Its source or tenant is closed then:
                the record may have taken back a secret, and the old one must not live on.
        """
        tenant_id, kind, id_ = _address(key)
        if kind == "erasure" and value is not None:  # for good, whatever it says
            self._sources.pop(tenant_id, None)
            self._erased.add(tenant_id)
        try:
            self._fold(tenant_id, kind, id_, value)
        except Exception:
            self._close(tenant_id, kind, id_)
            raise

    def _fold(self, tenant_id: str, kind: str, id_: str, value: bytes | None) -> None:
        record = None if value is None else TENANT.decode(value)
        if record and (record.tenant_id, record.kind, record.id) != (tenant_id, kind, id_):
            raise PoisonRecord("misaddressed", "the record's key names something else")
        if kind == "tenant":
            self._apply_tenant(tenant_id, record)
        elif kind == "source" and (record is None or record.disabled):
            # Not built: a disabled source has no secrets, and settings that fit no scheme, perhaps.
            self._close(tenant_id, kind, id_)
        elif kind == "source" and record is not None:
            self._sources.setdefault(tenant_id, {})[id_] = self._source(record)

    def _close(self, tenant_id: str, kind: str, id_: str) -> None:
        if kind == "source":
            self._sources.get(tenant_id, {}).pop(id_, None)
        elif kind == "tenant":
            self._disabled.add(tenant_id)

    def _apply_tenant(self, tenant_id: str, record: TenantRecord | None) -> None:
        if record is None:
            self._sources.pop(tenant_id, None)
        if record is not None and record.disabled:
            self._disabled.add(tenant_id)
        else:
            self._disabled.discard(tenant_id)

    def _source(self, record: TenantRecord) -> Source:
        try:
            settings = source_settings(record)
            verify = verifier(settings.scheme, settings.options)
            normalizer = Normalizer(settings.scheme, settings.mapping)
            secrets = tuple(source_secrets(self._vault, record))
        except ValidationError as error:  # its own text would show the offending value
            raise PoisonRecord("bad_source", _without_values(error)) from None
        except (SignatureError, ConfigError) as error:
            raise PoisonRecord("bad_source", str(error)) from error
        except VaultError as error:
            raise PoisonRecord("sealed_elsewhere", str(error)) from error
        except ValueError:
            raise PoisonRecord("bad_source", "its settings are not JSON") from None
        return Source(record.tenant_id, record.id, settings, verify, normalizer, secrets)


def _address(key: bytes | None) -> tuple[str, str, str]:
    try:
        tenant_id, kind, id_ = keys.split(key or b"")
    except ValueError:  # also what bytes that are no text raise
        raise PoisonRecord("misaddressed", "the key is not (tenant, kind, id)") from None
    return tenant_id, kind, id_


def _without_values(error: ValidationError) -> str:
    problems: list[Any] = error.errors(include_input=False, include_url=False)
    return "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in problems)
