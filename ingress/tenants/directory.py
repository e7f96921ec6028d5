"""Holds what an ingress knows of tenants: their sources, and the keys that seal their bodies."""

from __future__ import annotations

from ingress.tenants.sources import Closed, Source, SourceTable
from streams.settings import Settings
from streams.tenants.follower import Failed, Refuse, TenantsFollower
from streams.topology.model import Topology
from streams.vault.keyring import DataKeyring


class Directory:
    """Follows `tenants` into a table and a book of keys; `lookup` never waits."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        table: SourceTable,
        book: DataKeyring,
        refuse: Refuse,
        failed: Failed,
    ) -> None:
        self._table = table
        self._book = book
        self._follower = TenantsFollower(settings, topology, "ingress", self._fold, refuse, failed)

    @property
    def ready(self) -> bool:
        """Whether everything that was on the topic when it was first read is known."""
        return self._follower.ready

    def lookup(self, tenant_id: str, name: str) -> Source | None:
        """The source, or None if it or its tenant is unknown or disabled."""
        return self._table.lookup(tenant_id, name)

    def known(self, tenant_id: str, name: str) -> tuple[str | None, str | None]:
        """Tenant and source of a path; each is None if none of that name exists."""
        return self._table.known(tenant_id, name)

    def why_closed(self, tenant_id: str, name: str) -> Closed | None:
        """Why `lookup` finds no source for a path; None if it finds one."""
        return self._table.why_closed(tenant_id, name)

    def start(self) -> None:
        """Begin to follow; returns at once, even without a reachable broker."""
        self._follower.start()

    def stop(self) -> None:
        """Stop following and wait for the thread."""
        self._follower.stop()

    def _fold(self, key: bytes | None, value: bytes | None) -> None:
        self._book.apply(key, value)
        self._table.apply(key, value)
