"""Every tenant's data keys, as the fold of `tenants`.

All records of a tenant are in one partition, so every reader sees them in the same order. That
order makes sure that an erased tenant gets no key again: readers ignore a key that comes after its
tenant's `erasure`, and a body is sealed under a new key only once the key's record was read back
and not ignored.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

from streams.errors import Erased, PoisonRecord, VaultError
from streams.serde import keys
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord
from streams.vault.data_key import DataKey, period_now
from streams.vault.key_encryption import Vault

_Place = tuple[str, str]
_Found = Future[DataKey]


class DataKeyring:
    """Data keys by tenant and id; one thread writes, any thread may read."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._keys: dict[_Place, DataKey] = {}
        self._current: dict[str, DataKey] = {}
        self._erased: set[str] = set()
        self._waiting: dict[_Place, list[_Found]] = {}
        self._lock = threading.Lock()

    def current(self, tenant_id: str) -> DataKey | None:
        """The key under which the tenant's bodies are sealed now, if there is one."""
        key = self._current.get(tenant_id)
        return key if key is not None and key.period == period_now() else None

    def find(self, tenant_id: str, key_id: str) -> _Found:
        """A key, as soon as its record has been read; cancel the future to stop waiting.

        Raises (in the future):
            Erased: the tenant was erased.
        """
        found, place = _Found(), (tenant_id, key_id)
        with self._lock:
            if tenant_id in self._erased:
                found.set_exception(Erased(tenant_id))
            elif place in self._keys:
                found.set_result(self._keys[place])
            else:
                self._waiting.setdefault(place, []).append(found)
                found.add_done_callback(lambda _: self._forget(place, found))
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
            self._add((tenant_id, id_), TENANT.decode(value))

    def _add(self, place: _Place, record: TenantRecord) -> None:
        if (record.tenant_id, record.kind, record.id) != (place[0], "data_key", place[1]):
            raise PoisonRecord("misaddressed", "the record's key names something else")
        key = DataKey(self._vault, record)
        with self._lock:
            if key.tenant_id in self._erased:
                return
            self._keys[place] = key
            self._prefer(key)
            waiting = self._waiting.pop(place, [])
        for found in waiting:
            if found.set_running_or_notify_cancel():
                found.set_result(key)

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
            self._keys.pop((tenant_id, key_id), None)
            current = self._current.get(tenant_id)
            if current is not None and current.key_id == key_id:
                del self._current[tenant_id]

    def _erase(self, tenant_id: str) -> None:
        with self._lock:
            self._erased.add(tenant_id)
            self._current.pop(tenant_id, None)
            for place in [place for place in self._keys if place[0] == tenant_id]:
                del self._keys[place]
            places = [place for place in self._waiting if place[0] == tenant_id]
            waiting = [found for place in places for found in self._waiting.pop(place)]
        for found in waiting:
            if found.set_running_or_notify_cancel():
                found.set_exception(Erased(tenant_id))

    def _forget(self, place: _Place, found: _Found) -> None:
        with self._lock:
            waiting = self._waiting.get(place, [])
            if found in waiting:
                waiting.remove(found)
            if not waiting:
                self._waiting.pop(place, None)
