"""The age of the first vault key, by the oldest data key that is sealed under it.

A key has no date of its own: its file carries the time of a copy or a mount. But every tenant gets
a data key each week, and a rewrap seals all of them again. So the oldest one that the first key
opens says since when the key is in use.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client.core import GaugeMetricFamily

from streams.api.read_model.database import Database
from streams.api.tenants import table as tenants
from streams.process.wall_clock import wall_ms
from streams.telemetry import ScrapedCollector
from streams.vault.data_key import key_purpose
from streams.vault.key_encryption import Vault

_LOOKED_EVERY_SECONDS = 600.0
_MOST = 100
"""Data keys that are tried at most, because a key in a service of its own answers slowly. While
more than these are under older keys, the age is not told: a rotation is under way."""


class KeyAgeCollector(ScrapedCollector):
    """Has no sample until the read model has caught up, and while no data key tells the age."""

    def __init__(
        self,
        database: Database,
        ready: Callable[[], bool],
        vault: Vault,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._ready = ready
        self._vault = vault
        self._clock = clock
        self._looked_at = float("-inf")
        self._since: int | None = None

    def collect(self) -> Iterable[GaugeMetricFamily]:
        age = GaugeMetricFamily(
            "tidegate_vault_key_age_seconds", "Since when the first vault key has sealed data keys"
        )
        since = self._in_use_since() if self._ready() else None
        if since is not None:
            age.add_metric([], max(0.0, (wall_ms() - since) / 1000))
        yield age

    def _in_use_since(self) -> int | None:
        if self._clock() - self._looked_at < _LOOKED_EVERY_SECONDS:
            return self._since
        try:
            self._since = self._database.read(partial(in_use_since, vault=self._vault))
        except sqlite3.Error:
            return None  # the file is being rebuilt
        self._looked_at = self._clock()
        return self._since


def in_use_since(connection: sqlite3.Connection, vault: Vault) -> int | None:
    """Return since when the first key is in use, in milliseconds; None if it cannot be told."""
    for record in tenants.oldest_data_keys(connection, _MOST):
        purpose = key_purpose(record.id)
        if all(vault.is_current(record.tenant_id, purpose, sealed) for sealed in record.secrets):
            return record.updated_at
    return None
