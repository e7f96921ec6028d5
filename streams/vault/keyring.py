"""Every tenant's data keys, as the fold of `tenants`.

All records of a tenant are in one partition, so every reader sees them in the same order. That
order makes sure that an erased tenant gets no key again: readers ignore a key that comes after its
tenant's `erasure`, and a body is sealed under a new key only once the key's record was read back
and not ignored.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from itertools import chain

from streams.errors import Erased, PoisonRecord, VaultError
from streams.serde import keys
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord
from streams.vault.data_key import DataKey, period_now
from streams.vault.key_encryption import Vault

_Found = Future[DataKey]


class DataKeyring:
    """Data keys by tenant and id; one thread writes, any thread may read.

    With `seals_only` it opens no older bodies. So when a key comes, it forgets those of its tenant
    that are older than the period before this one.
    """

    def __init__(self, vault: Vault, *, seals_only: bool = False) -> None:
        self._vault = vault
        self._seals_only = seals_only
        self._keys: dict[str, dict[str, DataKey]] = {}  # by tenant: an erasure ends all of one
        self._current: dict[str, DataKey] = {}
        self._erased: set[str] = set()
        self._waiting: dict[str, dict[str, list[_Found]]] = {}
        self._lock = threading.Lock()

    def current(self, tenant_id: str) -> DataKey | None:
        """The key under which the tenant's bodies are sealed now, if there is one."""
        key = self._current.get(tenant_id)
        return key if key is not None and key.period == period_now() else None

    @property
    def vault(self) -> Vault:
        """The keys that wrap the data keys."""
        return self._vault

    def is_erased(self, tenant_id: str) -> bool:
        """Whether the tenant was erased, as far as is known here."""
        return tenant_id in self._erased

    def newest(self, tenant_id: str) -> DataKey | None:
        """The key of the newest period that is known of a tenant, if there is one.

        Raises:
            Erased: the tenant was erased.
        """
        with self._lock:
            if tenant_id in self._erased:
                raise Erased(tenant_id)
            known = list(self._keys.get(tenant_id, {}).values())
            current = self._current.get(tenant_id)
        return current or max(known, key=lambda key: key.period, default=None)

    def find(self, tenant_id: str, key_id: str) -> _Found:
        """A key, as soon as its record has been read; cancel the future to stop waiting.

        Raises (in the future):
            Erased: the tenant was erased.
        """
        found = _Found()
        with self._lock:
            known = self._keys.get(tenant_id, {}).get(key_id)
            if tenant_id in self._erased:
                found.set_exception(Erased(tenant_id))
            elif known is not None:
                found.set_result(known)
            else:
                self._waiting.setdefault(tenant_id, {}).setdefault(key_id, []).append(found)
                found.add_done_callback(lambda _: self._forget(tenant_id, key_id, found))
        return found

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Fold in one record of `tenants`; records of other kinds change nothing.

        Raises:
            PoisonRecord: a data key that cannot be decoded.
        """
        try:
            tenant_id, kind, id_ = keys.split(key or b"")
        except ValueError:
            return  # not a data key: the follower of the sources reports it
        if kind == "erasure" and value is not None:
            self._erase(tenant_id)
        elif kind == "data_key" and value is None:
            self._drop(tenant_id, id_)
        elif kind == "data_key" and value is not None:
            self._add(tenant_id, id_, TENANT.decode(value))

    def _add(self, tenant_id: str, key_id: str, record: TenantRecord) -> None:
        if (record.tenant_id, record.kind, record.id) != (tenant_id, "data_key", key_id):
            raise PoisonRecord("misaddressed", "the record's key names something else")
        key = DataKey(self._vault, record)
        with self._lock:
            if tenant_id in self._erased:
                return
            self._keep(key)
            self._prefer(key)
            waiting = self._waiting.get(tenant_id, {}).pop(key_id, [])
        for found in waiting:
            if found.set_running_or_notify_cancel():
                found.set_result(key)

    def _keep(self, key: DataKey) -> None:
        own = self._keys.setdefault(key.tenant_id, {})
        own[key.key_id] = key
        if self._seals_only:
            for old in [each for each in own.values() if each.period < period_now() - 1]:
                del own[old.key_id]

    def _prefer(self, key: DataKey) -> None:
        """Let the period's first key that opens here seal; its other keys only open.

        A key that does not open here must not seal: this process would make its own, then the
        processes that cannot open that one would make theirs, without end.
        """
        if key.period == period_now() and self.current(key.tenant_id) is None:
            try:
                key.unwrap()
            except VaultError:
                return
            self._current[key.tenant_id] = key

    def _drop(self, tenant_id: str, key_id: str) -> None:
        with self._lock:
            self._keys.get(tenant_id, {}).pop(key_id, None)
            current = self._current.get(tenant_id)
            if current is not None and current.key_id == key_id:
                del self._current[tenant_id]

    def _erase(self, tenant_id: str) -> None:
        with self._lock:
            self._erased.add(tenant_id)
            self._current.pop(tenant_id, None)
            self._keys.pop(tenant_id, None)
            waiting = list(chain.from_iterable(self._waiting.pop(tenant_id, {}).values()))
        for found in waiting:
            if found.set_running_or_notify_cancel():
                found.set_exception(Erased(tenant_id))

    def _forget(self, tenant_id: str, key_id: str, found: _Found) -> None:
        with self._lock:
            asked = self._waiting.get(tenant_id, {})
            waiting = asked.get(key_id, [])
            if found in waiting:
                waiting.remove(found)
            if not waiting:
                asked.pop(key_id, None)
            if not asked:
                self._waiting.pop(tenant_id, None)
