"""Where a process keeps its stores: `<data_dir>/state/<stage>/<instance>/<store>/<partition>`."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import BinaryIO

import structlog

from streams.errors import ConfigError, StoreDamaged
from streams.runtime.backends import backend_for
from streams.runtime.processor import StoreSpec
from streams.runtime.topics import Changelog
from streams.settings import Settings
from streams.state.open_files import share_out
from streams.state.rocksdb import RocksTables, remove_tables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Backend

log = structlog.get_logger(__name__)


class StateDirectory:
    """Opens the stores of one process; they share its caches, write buffers and descriptors.

    `stores` is the number of stores of each of the `partitions`.

    The process claims the directory from the start: otherwise a second process of the instance
    would fence the first, in the group and in its transactions, and only then find the stores in
    use.

    Raises:
        ConfigError: another process has claimed it, or the disk denies access.
    """

    def __init__(self, settings: Settings, stage: str, partitions: int, stores: int = 1) -> None:
        self._root = settings.data_dir / "state" / stage / settings.instance
        self._claim = _claim(self._root)
        self._partitions = partitions
        self._files = share_out(partitions * stores)
        self._memory = RocksMemory(max_open_files=self._files.each)
        self._stores = stores

    def make_room(self, partitions: int) -> None:
        """Check that the stores of so many partitions can be open at once.

        Raises:
            ConfigError: the process may not open enough files; the message names the remedy.
        """
        self._files.refuse_more(partitions * self._stores)

    def open(self, spec: StoreSpec, partition: int, changelog: Changelog) -> Backend:
        """Open the store as it is on disk; begin it anew if it cannot be trusted.

        It is trusted if it was written for this many partitions, this very changelog and this
        window.
        """
        identity = (
            f"partition {partition} of {self._partitions}, changelog {changelog.topic_id}, "
            f"{spec.kind} {spec.window_ms}"
        )
        walked = spec.kind != "window"
        return backend_for(spec, self.open_tables(spec.name, partition, identity, walked=walked))

    def open_tables(
        self, store: str, partition: int, identity: str, *, walked: bool = True
    ) -> RocksTables:
        """Open the tables of a store, or begin them anew if they are damaged or another's."""
        path = self.path(store, partition)
        try:
            return RocksTables(path, identity, self._memory, walked=walked)
        except StoreDamaged as damaged:
            log.warning("store is rebuilt", store=store, partition=partition, why=str(damaged))
            remove_tables(path)
            return RocksTables(path, identity, self._memory, walked=walked)

    def path(self, store: str, partition: int) -> Path:
        """Directory of one store."""
        return self._root / store / str(partition)


def _claim(root: Path) -> BinaryIO:
    """A file that stays locked while it is open, until the process ends at the latest."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        file = (root / "claim").open("wb")
    except OSError as error:
        raise ConfigError(
            f"{root}: {error.strerror}: give the process a disk it may write"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise ConfigError(
            f"{root} is in use by another process: give each process of a stage its own --instance"
        ) from error
    return file
