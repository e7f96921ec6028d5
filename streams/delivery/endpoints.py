"""The endpoints of one partition's tenants, and which of them get a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from streams.delivery.change import Change
from streams.delivery.endpoint import Endpoint, matcher
from streams.process.bounded_cache import BoundedCache
from streams.serde.delivery_records import Outgoing
from streams.tenants.endpoints import CALLBACKS

_MOST_WANTING, _ID_BYTES = 4 * 1024 * 1024, 8
"""Senders invent types of events, and a thousand endpoints may want each."""


class Endpoints:
    """Endpoints by tenant and id; they follow each change, in memory alone."""

    def __init__(self) -> None:
        self._by_tenant: dict[str, dict[str, Endpoint]] = {}
        self._wanting = BoundedCache[tuple[str, str, str], tuple[str, ...]](_MOST_WANTING)

    def __iter__(self) -> Iterator[Endpoint]:
        return (each for named in self._by_tenant.values() for each in named.values())

    def get(self, tenant_id: str, endpoint_id: str) -> Endpoint | None:
        return self._by_tenant.get(tenant_id, {}).get(endpoint_id)

    def of(self, tenant_id: str) -> list[Endpoint]:
        return list(self._by_tenant.get(tenant_id, {}).values())

    def changed(self, change: Change[Endpoint]) -> None:
        """Follow a change of an endpoint, or one that was undone."""
        before, after = change.before, change.after
        if after is not None:
            self._by_tenant.setdefault(after.tenant_id, {})[after.id] = after
        elif before is not None:
            del self._by_tenant[before.tenant_id][before.id]
        if before is None or after is None or before.filters != after.filters:
            self._wanting.clear()

    def wanting(self, message: Outgoing) -> list[Endpoint]:
        """The endpoints that get a message, whether or not they are enabled."""
        named = self._by_tenant.get(message.tenant_id)
        if not named:
            return []
        key = message.tenant_id, message.source, message.type
        ids = self._wanting.get(key)
        if ids is None:
            ids = tuple(each.id for each in named.values() if _wants(each, message))
            self._wanting.put(key, ids, sum(map(len, key)) + _ID_BYTES * len(ids))
        return [named[id_] for id_ in ids]


def _wants(endpoint: Endpoint, message: Outgoing) -> bool:
    return (
        endpoint.id != CALLBACKS
        and _pattern(endpoint.settings.events).match(message.type) is not None
        and _pattern(endpoint.settings.sources).match(message.source) is not None
    )


@lru_cache(maxsize=10_000)
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    return matcher(globs)
