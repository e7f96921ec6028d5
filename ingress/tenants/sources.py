"""The sources that may send, as the fold of the `tenants` topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from ingress.schemes import Challenge, Verifier, challenge, verifier
from ingress.schemes.normalize import Normalizer
from ingress.tenants.references import NamedSecret, References
from streams.errors import ConfigError, PoisonRecord, SignatureError, VaultError
from streams.serde import keys
from streams.serde.codec import TENANT
from streams.serde.records import SigningKey, TenantRecord
from streams.tenants.settings import Rate, SourceSettings, source_settings, tenant_settings
from streams.tenants.source_keys import open_secret
from streams.vault.key_encryption import Vault

Closed = Literal[
    "no_tenant",
    "unknown_tenant",
    "disabled_tenant",
    "unusable_tenant",
    "erased_tenant",
    "unknown_source",
    "disabled_source",
    "unusable_source",
    "no_secret",
    "unresolved_secret",
]
"""Why no delivery to a path can be accepted; docs/answers.md says what to do about each."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a source; it may end, at a time in seconds since the epoch."""

    secret: bytes | NamedSecret = field(repr=False)
    until: float | None


@dataclass(frozen=True, slots=True)
class Source:
    """One source of one tenant, ready to verify and normalize; `keys` newest first."""

    tenant_id: str
    name: str
    settings: SourceSettings
    verify: Verifier
    challenge: Challenge
    normalizer: Normalizer
    keys: tuple[Key, ...]

    def secrets(self, now: float) -> dict[int, bytes]:
        """The secrets that verify at a time, by their key's position, newest (0) first.

        The result is empty if none can be resolved; the source is closed then.
        """
        return {
            age: secret
            for age, key in enumerate(self.keys)
            if (key.until is None or now < key.until) and (secret := _secret(key)) is not None
        }

    def without_secret(self, now: float) -> Closed:
        """Why `secrets` is empty at a time."""
        living = (key for key in self.keys if key.until is None or now < key.until)
        named = any(isinstance(key.secret, NamedSecret) for key in living)
        return "unresolved_secret" if named else "no_secret"


class SourceTable:
    """Every source by tenant and name; one thread writes, any may look up.

    A source is usable without a record of its tenant, but not once that record is disabled.
    """

    def __init__(self, vault: Vault, references: References) -> None:
        self._vault = vault
        self._references = references
        self._sources: dict[str, dict[str, Source]] = {}
        self._closed_sources: dict[str, dict[str, Closed]] = {}
        self._tenants: set[str] = set()  # those that have a record of their own
        self._closed_tenants: dict[str, Closed] = {}
        self._erased: set[str] = set()
        self.rates: dict[str, Rate] = {}
        """The rates of those tenants that have one."""

    def lookup(self, tenant_id: str, name: str) -> Source | None:
        """The source, or None if it or its tenant is unknown or disabled."""
        source = self._sources.get(tenant_id, {}).get(name)
        if source is None or tenant_id in self._closed_tenants or tenant_id in self._erased:
            return None
        return source

    def known(self, tenant_id: str, name: str) -> tuple[str | None, str | None]:
        """Tenant and source of a path; each is None if none of that name exists.

        The source of a closed tenant is None, too.
        """
        closed = self.why_closed(tenant_id, name)
        if closed in {None, "disabled_source", "unusable_source"}:
            return tenant_id, name
        return (tenant_id if self._exists(tenant_id) else None), None

    def why_closed(self, tenant_id: str, name: str) -> Closed | None:
        """Why `lookup` finds no source for a path; None if it finds one."""
        if tenant_id in self._erased:
            return "erased_tenant"
        if tenant_id in self._closed_tenants:
            return self._closed_tenants[tenant_id]
        if name in self._sources.get(tenant_id, {}):
            return None
        if not self._exists(tenant_id):
            return "unknown_tenant" if tenant_id else "no_tenant"
        return self._closed_sources.get(tenant_id, {}).get(name, "unknown_source")

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Fold one record in.

        Raises:
            PoisonRecord: the record cannot be decoded or opened. Its source or tenant is then
                closed, because the record may revoke a secret that must no longer verify.
        """
        tenant_id, kind, id_ = _address(key)
        if kind == "erasure" and value is not None:  # an erasure is final, whatever its value says
            self._forget(tenant_id)
            self.rates.pop(tenant_id, None)
            self._erased.add(tenant_id)
        try:
            self._fold(tenant_id, kind, id_, value)
        except Exception:
            self._close(tenant_id, kind, id_, unusable=True)
            raise

    def _fold(self, tenant_id: str, kind: str, id_: str, value: bytes | None) -> None:
        if kind == "data_key":
            return  # the keyring decodes these
        record = None if value is None else TENANT.decode(value)
        if record and (record.tenant_id, record.kind, record.id) != (tenant_id, kind, id_):
            raise PoisonRecord("misaddressed", "the record's key names something else")
        if kind == "tenant":
            self._apply_tenant(tenant_id, record)
        elif kind == "source" and record is None:
            self._sources.get(tenant_id, {}).pop(id_, None)
            self._closed_sources.get(tenant_id, {}).pop(id_, None)
        elif kind == "source" and record is not None and record.disabled:
            # Do not build it: a disabled source has no secrets, and perhaps unfit settings.
            self._close(tenant_id, kind, id_)
        elif kind == "source" and record is not None:
            self._sources.setdefault(tenant_id, {})[id_] = self._source(record)
            self._closed_sources.get(tenant_id, {}).pop(id_, None)

    def _close(self, tenant_id: str, kind: str, id_: str, *, unusable: bool = False) -> None:
        if kind == "source":
            why: Closed = "unusable_source" if unusable else "disabled_source"
            self._closed_sources.setdefault(tenant_id, {})[id_] = why
            self._sources.get(tenant_id, {}).pop(id_, None)
        elif kind == "tenant":
            self._tenants.add(tenant_id)
            self._closed_tenants[tenant_id] = "unusable_tenant" if unusable else "disabled_tenant"

    def _exists(self, tenant_id: str) -> bool:
        kept = (self._tenants, self._sources, self._closed_sources)
        return tenant_id not in self._erased and any(tenant_id in names for names in kept)

    def _forget(self, tenant_id: str) -> None:
        self._sources.pop(tenant_id, None)
        self._closed_sources.pop(tenant_id, None)
        self._tenants.discard(tenant_id)

    def _apply_tenant(self, tenant_id: str, record: TenantRecord | None) -> None:
        rate = None if record is None else _rate(record)
        if rate is None:
            self.rates.pop(tenant_id, None)
        else:
            self.rates[tenant_id] = rate
        if record is None:
            self._forget(tenant_id)
        else:
            self._tenants.add(tenant_id)
        if record is not None and record.disabled:
            self._close(tenant_id, "tenant", "")
        else:
            self._closed_tenants.pop(tenant_id, None)

    def _source(self, record: TenantRecord) -> Source:
        try:
            settings = source_settings(record)
            verify = verifier(settings.scheme, settings.options)
            asked = challenge(settings.scheme, settings.options)
            normalizer = Normalizer(settings.scheme, settings.mapping, settings.dedup_by)
            keys = tuple(self._key(record, settings.scheme, key) for key in record.keys)
        except ValidationError as error:  # its message would show the offending value
            raise PoisonRecord("bad_source", _without_values(error)) from None
        except (SignatureError, ConfigError) as error:
            raise PoisonRecord("bad_source", str(error)) from error
        except VaultError as error:
            raise PoisonRecord("sealed_elsewhere", str(error)) from error
        except ValueError:
            raise PoisonRecord("bad_source", "its settings are not JSON") from None
        return Source(record.tenant_id, record.id, settings, verify, asked, normalizer, keys)

    def _key(self, record: TenantRecord, scheme: str, key: SigningKey) -> Key:
        until = None if key.until is None else key.until / 1000
        if key.sealed is not None:
            return Key(open_secret(self._vault, record, key.sealed), until)
        named = self._references.named(key.reference or "", scheme, record.tenant_id, record.id)
        return Key(named, until)


def _secret(key: Key) -> bytes | None:
    return key.secret.secret if isinstance(key.secret, NamedSecret) else key.secret


def _rate(record: TenantRecord) -> Rate | None:
    try:
        return tenant_settings(record).rate
    except ValueError as error:  # pydantic's and orjson's errors are subclasses
        detail = _without_values(error) if isinstance(error, ValidationError) else "not JSON"
        raise PoisonRecord("bad_tenant", detail) from None


def _address(key: bytes | None) -> tuple[str, str, str]:
    try:
        tenant_id, kind, id_ = keys.split(key or b"")
    except ValueError:  # includes the error for bytes that are no text
        raise PoisonRecord("misaddressed", "the key is not (tenant, kind, id)") from None
    return tenant_id, kind, id_


def _without_values(error: ValidationError) -> str:
    problems: list[Any] = error.errors(include_input=False, include_url=False)
    return "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in problems)
