"""Where a process keeps its stores: `<data_dir>/state/<stage>/<instance>/<store>/<partition>`."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

import structlog

from streams.errors import ConfigError, StoreDamaged
from streams.process.wall_clock import wall_ms
from streams.runtime.backends import backend_for
from streams.runtime.stage import StoreSpec
from streams.runtime.topics import Changelog
from streams.settings import Settings
from streams.state.open_files import share_out
from streams.state.rocksdb import RocksTables, last_written, remove_tables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Backend

log = structlog.get_logger(__name__)

_LEFT_SECONDS = 43_200
"""How long a store stays that is not opened: half as long as Kafka, by default, keeps tombstones.

An older key-value store would be begun anew when its partition comes back
(`restoring_store.distrust`). An older window store would still save a part of its restore, but its
disk may be needed.
"""


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

        It is trusted if it was written for this many partitions, this very changelog, this window
        and an index of this shape.
        """
        identity = (
            f"partition {partition} of {self._partitions}, changelog {changelog.topic_id}, "
            f"{spec.kind} {spec.window_ms}"
        )
        if spec.index is not None:
            identity += f", index {spec.index.shape}"
        walked = spec.kind != "window"
        return backend_for(spec, self.open_tables(spec.name, partition, identity, walked=walked))

    def open_tables(
        self, store: str, partition: int, identity: str, *, walked: bool = True
    ) -> RocksTables:
        """Open the tables of a store, or begin them anew if they are damaged or another's.

        Raises:
            ConfigError: the disk denies access, also if it keeps damaged tables from being deleted.
        """
        path = self.path(store, partition)
        try:
            return RocksTables(path, identity, self._memory, walked=walked)
        except StoreDamaged as damaged:
            log.warning("store is rebuilt", store=store, partition=partition, why=str(damaged))
            remove_tables(path)
        try:
            return RocksTables(path, identity, self._memory, walked=walked)
        except StoreDamaged as still:
            raise ConfigError(
                f"{still}, and it cannot be begun anew: delete this directory, or give the process "
                "a disk it may write"
            ) from still

    def remove_left(self, kept: Collection[Path], seconds: float) -> bool:
        """Delete the stores that were not written for 12 h, except those at the `kept` paths.

        A partition that moves to another process leaves its stores here. For a while they make its
        return quick; then they only fill the disk, and keep what should be gone everywhere. Only
        this process uses the directory, because it has claimed it: so `kept` has all open stores.

        Returns False if there may be more: it stops after about so many seconds.
        """
        until = time.monotonic() + seconds
        for path in sorted(self._root.glob("*/[0-9]*")):
            if path not in kept and _is_old(path):
                _remove(path)
                if time.monotonic() >= until:
                    return False
        return True

    def path(self, store: str, partition: int) -> Path:
        """Directory of one store."""
        return self._root / store / str(partition)


def _is_old(store: Path) -> bool:
    """Whether it was written long ago, or by a clock that says nothing about its age.

    A wall clock that is wrong costs no more than a restore.
    """
    try:
        age = wall_ms() / 1000 - last_written(store)
    except OSError:
        return False
    return abs(age) > _LEFT_SECONDS


def _remove(store: Path) -> None:
    remove_tables(store)
    if store.exists():
        log.warning("left store cannot be deleted: delete it", path=str(store))
    else:
        log.info("left store is deleted: its partition moved away", path=str(store))


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
