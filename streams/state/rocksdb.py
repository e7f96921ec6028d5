"""Tables on disk: one RocksDB database a store and partition, one column family a table.

Data and checkpoint go into one WriteBatch, so a crash leaves both or neither. The log of the
database is not synced: what a lost power supply takes, the changelog gives back.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, cast

from rocksdict import (
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
)

from streams.errors import ConfigError, StoreDamaged
from streams.state.store import Checkpoint

FORMAT = 1
_META = "default"
_CHECKPOINT = b"checkpoint"
_IDENTITY = b"identity"
_POSITION = struct.Struct(">qqq")
_MARKER = "DAMAGED"
_MIB = 1024 * 1024


@dataclass(frozen=True)
class RocksMemory:
    """The memory that all databases of a process share: block cache and write buffers."""

    cache: Cache = field(default_factory=lambda: Cache(128 * _MIB))
    write_buffers: WriteBufferManager = field(
        default_factory=lambda: WriteBufferManager(128 * _MIB, False)
    )

    def options(self) -> Options:
        """Of the database and, named again for each, of every column family."""
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self.cache)
        blocks.set_bloom_filter(10, False)
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_manager(self.write_buffers)
        options.set_write_buffer_size(32 * _MIB)
        # Most lookups of dedup miss: without it each walks the skip list of each segment's
        # memtable, 2.4 us instead of 0.7.
        options.set_memtable_prefix_bloom_ratio(0.05)
        options.set_memtable_whole_key_filtering(True)
        options.set_max_total_wal_size(128 * _MIB)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_keep_log_file_num(2)
        options.set_max_open_files(512)
        return options


class RocksTables:
    """`Tables` in a directory that this process owns alone.

    `identity` says whose state this is (format, partitions, changelog); a directory written
    under another is damaged as far as this store is concerned.

    Raises:
        StoreDamaged: on opening or using it; `remove_tables` and start again.
        ConfigError: another process has it open, or the disk denies it.
    """

    def __init__(self, path: Path, identity: str, memory: RocksMemory) -> None:
        self.path = path
        self._options = memory.options()
        self._checkpoint: Checkpoint | None = None
        if (path / _MARKER).exists():
            raise StoreDamaged(f"{path}: found damaged before")
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._db = Rdict(str(path), self._options, column_families=self._families())
            self._open_tables()
            self._claim(f"format {FORMAT}, {identity}".encode())
        except (StoreDamaged, ConfigError):
            raise
        except Exception as error:
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
        try:
            entries = found.iter(bounds)
            entries.seek(start)
            while entries.valid():
                yield entries.key(), entries.value()
                entries.next()
            entries.status()  # a damaged block ends the entries, too; `items` would not say so
        except Exception as error:
            self._failed(error)

    def write(
        self, changes: Mapping[int, Mapping[bytes, bytes | None]], checkpoint: Checkpoint
    ) -> None:
        try:
            batch = WriteBatch(raw_mode=True)
            for number, entries in changes.items():
                handle = self._handle(number)
                for key in sorted(entries):  # in the order of its skip list: a third cheaper
                    value = entries[key]
                    if value is None:
                        batch.delete(key, handle)
                    else:
                        batch.put(key, value, handle)
            position = checkpoint.offset, checkpoint.written_at_ms, checkpoint.stream_time
            batch.put(_CHECKPOINT, _POSITION.pack(*position))
            self._db.write(batch)
        except Exception as error:
            self._failed(error)
        self._checkpoint = checkpoint

    def drop(self, table: int) -> None:
        if self._tables.pop(table, None) is not None:
            del self._handles[table]
            self._db.drop_column_family(_name(table))

    def checkpoint(self) -> Checkpoint | None:
        return self._checkpoint

    def wipe(self) -> None:
        for number in self.numbers():
            self.drop(number)
        self._db.delete(_CHECKPOINT)
        self._checkpoint = None

    def close(self) -> None:
        """Closed it is, also where the last flush fails: a damaged one is told of when opened."""
        # Each table object holds the database open; the entries stay, so that a late read
        # raises and does not look like a miss.
        failures = [_close(table) for table in self._tables.values()]
        self._handles.clear()
        failures.append(_close(self._db))
        for failure in filter(None, failures):
            with suppress(StoreDamaged):
                self._failed(failure)

    def _families(self) -> dict[str, Options]:
        # Without its options named again, an existing family loses its cache and filters.
        names = {_META}
        if (self.path / "CURRENT").exists():
            names |= set(Rdict.list_cf(str(self.path), self._options))
        return dict.fromkeys(names, self._options)

    def _open_tables(self) -> None:
        self._tables: dict[int, Rdict] = {}
        self._handles: dict[int, ColumnFamily] = {}
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
            self.close()
            raise StoreDamaged(f"{self.path}: holds {written!r}, not {identity!r}")

    def _handle(self, number: int) -> ColumnFamily:
        if number not in self._tables:
            self._tables[number] = self._db.create_column_family(_name(number), self._options)
            self._handles[number] = self._db.get_column_family_handle(_name(number))
        return self._handles[number]

    def _failed(self, error: Exception) -> NoReturn:
        if isinstance(error, DbClosedError):
            raise error
        text = str(error)
        if "/LOCK" in text:
            raise ConfigError(
                f"{self.path} is in use by another process: "
                "give each process of a stage its own --instance"
            ) from error
        if any(reason in text for reason in ("No space left", "Permission denied", "Read-only")):
            raise ConfigError(
                f"{self.path}: {text}: give the process a disk it may write"
            ) from error
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / _MARKER).touch()
        raise StoreDamaged(f"{self.path}: {text}") from error


def _close(table: Rdict) -> Exception | None:
    try:
        table.close()
    except DbClosedError:
        return None
    except Exception as error:
        return error
    return None


def remove_tables(path: Path) -> None:
    """Delete a database that nobody has open."""
    shutil.rmtree(path, ignore_errors=True)


def _name(number: int) -> str:
    return str(number)
