"""Tables on disk: one RocksDB database per store and partition, one column family per table.

Data and checkpoint go into one WriteBatch, so a crash leaves both or neither. The log of the
database is not synced: writes lost in a power failure are restored from the changelog.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, cast

from rocksdict import ColumnFamily, DbClosedError, Options, Rdict, ReadOptions, WriteBatch

from streams.errors import ConfigError, StoreDamaged
from streams.state.rocksdb_manifest import manifest_is_whole
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Changes, Checkpoint

FORMAT = 1
_META = "default"
_CHECKPOINT = b"checkpoint"
_IDENTITY = b"identity"
_POSITION = struct.Struct(">qqq")
_MARKER = "DAMAGED"
_WRITABLE = "give the process a disk it may write"
_REMEDIES = {
    _WRITABLE: (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS),
    "raise the limit on the size of files, as `ulimit -f` does": (errno.EFBIG,),
    "the disk fails, put the state on another": (
        errno.EIO,
        errno.EREMOTEIO,
        errno.ENXIO,
        errno.ENODEV,
    ),
    "mount the disk again, or put the state on a local one": (errno.ESTALE, errno.ETIMEDOUT),
    "raise the limit on open files, as `ulimit -n` does": (errno.EMFILE,),
    "raise the machine's limit on open files, `fs.file-max`": (errno.ENFILE,),
    "give the process more memory": (errno.ENOMEM,),
}
_DENIED = {os.strerror(n): remedy for remedy, numbers in _REMEDIES.items() for n in numbers}
"""Errors that do not mean damage, as RocksDB words them, and what to do about each."""


class RocksTables:
    """`Tables` in a directory that this process owns alone.

    `identity` describes the state (format, partitions, changelog); a directory written under
    another identity counts as damaged for this store. Without `walked`, entries are cheap to write
    and to look up, and `range` first sorts everything that is not yet on disk.

    Raises:
        StoreDamaged: on opening or using it; call `remove_tables` and start again.
        ConfigError: another process has it open, or the disk denies access.
    """

    def __init__(
        self, path: Path, identity: str, memory: RocksMemory, *, walked: bool = True
    ) -> None:
        self.path = path
        self._meta = memory.walked()
        self._options = self._meta if walked else memory.looked_up()
        self._tables: dict[int, Rdict] = {}
        self._handles: dict[int, ColumnFamily] = {}
        self._checkpoint: Checkpoint | None = None
        if (path / _MARKER).exists():
            raise StoreDamaged(f"{path}: found damaged before")
        self._db = self._database()
        try:
            self._claim(f"format {FORMAT}, {identity}".encode())
            self._open_tables()
        except Exception as error:
            self.close()  # otherwise a caller that begins it anew would find it in use
            if isinstance(error, StoreDamaged):
                raise
            self._failed(error)

    def numbers(self) -> Sequence[int]:
        return sorted(self._tables)

    def get(self, table: int, key: bytes) -> bytes | None:
        return self.get_many(table, [key])[0]

    def get_many(self, table: int, keys: Sequence[bytes]) -> list[bytes | None]:
        found = self._tables.get(table)
        if found is None or not keys:
            return [None] * len(keys)
        try:
            return cast("list[bytes | None]", found.get(list(keys)))
        except Exception as error:
            self._failed(error)

    def range(self, table: int, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        found = self._tables.get(table)
        if found is None or start >= end:
            return
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        bounds.set_total_order_seek(True)  # do not stay within the bucket of `start`
        try:
            entries = found.iter(bounds)
            entries.seek(start)
            while entries.valid():
                yield entries.key(), entries.value()
                entries.next()
            entries.status()  # a damaged block also ends the entries; only `status` reports it
        except Exception as error:
            self._failed(error)

    def write(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> None:
        batch = self._batch(changes, checkpoint)
        self._change(lambda: self._db.write(batch))
        self._checkpoint = checkpoint

    def drop(self, table: int) -> None:
        if self._tables.pop(table, None) is not None:
            del self._handles[table]
            self._change(lambda: self._db.drop_column_family(_name(table)))

    def checkpoint(self) -> Checkpoint | None:
        return self._checkpoint

    def wipe(self) -> None:
        # Delete the checkpoint first, so that no crash leaves one whose entries are missing.
        self._change(lambda: self._db.delete(_CHECKPOINT))
        self._checkpoint = None
        for number in self.numbers():
            self.drop(number)

    def close(self) -> None:
        """Always close, even if the last flush fails; damage is reported on the next open."""
        # Each table object holds the database open. The entries in `_tables` stay, so that a late
        # read raises instead of looking like a miss.
        failures = [_close(table) for table in self._tables.values()]
        self._handles.clear()
        failures.append(_close(self._db))
        for failure in filter(None, failures):
            with suppress(StoreDamaged):
                self._failed(failure)

    def _batch(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        position = checkpoint.offset, checkpoint.written_at_ms, checkpoint.stream_time
        batch.put(_CHECKPOINT, _POSITION.pack(*position))
        put, delete = batch.put, batch.delete
        for number, own in changes.items():
            # Name the table once for the batch: then each put need not name it.
            batch.set_default_column_family(self._handle(number))
            for key, value in own.items():
                if value is None:
                    delete(key)
                else:
                    put(key, value)
        return batch

    def _database(self) -> Rdict:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not manifest_is_whole(self.path):
                raise ValueError("its MANIFEST ends within a record")
            return Rdict(str(self.path), self._meta, column_families=self._families())
        except Exception as error:
            self._failed(error)

    def _families(self) -> dict[str, Options]:
        # Name an existing family's options again: otherwise it loses its cache and filters.
        exists = (self.path / "CURRENT").exists()
        names = Rdict.list_cf(str(self.path), self._meta) if exists else []
        return dict.fromkeys(names, self._options) | {_META: self._meta}

    def _open_tables(self) -> None:
        for name in self._families():
            if name != _META:
                self._tables[int(name)] = self._db.get_column_family(name)
                self._handles[int(name)] = self._db.get_column_family_handle(name)
        stored = self._db.get(_CHECKPOINT)
        self._checkpoint = Checkpoint(*_POSITION.unpack(stored)) if stored else None

    def _claim(self, identity: bytes) -> None:
        written = self._db.get(_IDENTITY)
        if written is None:
            self._db.put(_IDENTITY, identity)
        elif written != identity:
            raise StoreDamaged(f"{self.path}: holds {written!r}, not {identity!r}")

    def _change(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            self._failed(error)

    def _handle(self, number: int) -> ColumnFamily:
        if number not in self._tables:
            name = _name(number)
            try:
                self._tables[number] = self._db.create_column_family(name, self._options)
                self._handles[number] = self._db.get_column_family_handle(name)
            except Exception as error:
                self._failed(error)
        return self._handles[number]

    def _failed(self, error: Exception) -> NoReturn:
        if isinstance(error, DbClosedError | MemoryError):
            raise error
        text = str(error)
        for reason, remedy in _DENIED.items():
            if reason in text:
                raise ConfigError(f"{self.path}: {text}: {remedy}") from error
        if "/LOCK" in text:
            raise ConfigError(
                f"{self.path} is in use by another process: "
                "give each process of a stage its own --instance"
            ) from error
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / _MARKER).touch()
        except OSError as denied:
            raise ConfigError(f"{self.path}: {text}, and {denied.strerror}: {_WRITABLE}") from error
        raise StoreDamaged(f"{self.path}: {text}") from error


def _close(table: Rdict) -> Exception | None:
    try:
        table.close()
    except DbClosedError:
        return None
    except Exception as error:
        # A traceback would form a cycle with `close`'s own frame. Until that is collected, it keeps
        # the error that is being handled, whose frames may hold the database open.
        return error.with_traceback(None)
    return None


def remove_tables(path: Path) -> None:
    """Delete a database that nobody has open; an interrupted deletion leaves a damaged one."""
    with suppress(OSError):
        (path / _MARKER).touch()
        for file in path.iterdir():
            if file.name != _MARKER:
                file.unlink()
    shutil.rmtree(path, ignore_errors=True)


def last_written(path: Path) -> float:
    """When a closed database was last written, by the file system, in seconds since 1970.

    0 if nothing is left of it but the mark of its damage.

    Raises:
        OSError: it cannot be looked at.
    """
    files = (file for file in path.iterdir() if file.name != _MARKER)
    return max((file.stat().st_mtime for file in files), default=0.0)


def _name(number: int) -> str:
    return str(number)
