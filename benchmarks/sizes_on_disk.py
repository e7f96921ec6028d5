"""What a running pipeline has on disk and in memory: logs by topic, stores by name, processes."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from rocksdict import Rdict

from streams.state.rocksdb_memory import RocksMemory

_MIB = 1024
_KEPT_EVENTS = (b"u", b"w", b"y", b"n", b"r")
"""How keys of kept events begin (`streams.dispatcher.parts.kept_events.py`)."""


def logged(data: Path) -> Counter[str]:
    """Bytes of the segments of each topic, over its partitions; indexes are left out.

    Kafka reserves the whole index of an open segment, so files of indexes tell nothing.
    """
    found = Counter[str]()
    for segment in data.rglob("*.log"):
        topic, _, partition = segment.parent.name.rpartition("-")
        if partition.isdecimal() and not topic.startswith("__"):
            found[topic] += segment.stat().st_size
    return found


def closed_segments(data: Path, topic: str) -> int:
    """Bytes of the segments of a topic that the cleaner may compact: all but the newest."""
    partitions = (sorted(each.glob("*.log")) for each in data.rglob(f"{topic}-[0-9]*"))
    return sum(segment.stat().st_size for segments in partitions for segment in segments[:-1])


def stores(state: Path, copies: Path) -> dict[str, tuple[int, int]]:
    """Of each store, over its partitions: its entries, and their bytes in one database at rest.

    The events that the dispatcher keeps without a job are `kept events`, not `jobs`. A store's
    folder is that of its partitions.
    """
    found: dict[str, list[tuple[bytes, bytes]]] = {}
    for number, current in enumerate(sorted(state.rglob("CURRENT"))):
        name = current.parent.parent.name
        copy = shutil.copytree(current.parent, copies / f"read{number}")
        for key, value in _entries(copy):
            kept = name == "jobs" and key[:1] in _KEPT_EVENTS
            found.setdefault("kept events" if kept else name, []).append((key, value))
    return {
        name: (len(entries), _size(copies / name, entries, walked=name != "seen"))
        for name, entries in found.items()
    }


def _entries(path: Path) -> Iterator[tuple[bytes, bytes]]:
    families = [name for name in Rdict.list_cf(str(path)) if name != "default"]
    options = RocksMemory()
    tables = {name: options.walked() for name in (*families, "default")}
    with closing(Rdict(str(path), options.walked(), tables)) as database:
        for name in families:
            with closing(database.get_column_family(name)) as table:
                yield from table.items()


def _size(path: Path, entries: Sequence[tuple[bytes, bytes]], *, walked: bool) -> int:
    """Bytes of a new database with these entries, merged, laid out as our stores are."""
    memory = RocksMemory()
    with closing(Rdict(str(path), memory.walked() if walked else memory.looked_up())) as database:
        for key, value in entries:
            database[key] = value
        database.flush()
        database.compact_range(None, None)
    return sum(file.stat().st_size for file in path.glob("*.sst"))


def read_model(folder: Path) -> dict[str, tuple[int, int]]:
    """Of each table of the operator's file: its rows, and its bytes with those of its indexes."""
    (path,) = folder.rglob("*.sqlite")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        owners = dict(connection.execute("SELECT name, tbl_name FROM sqlite_master"))
        sizes = Counter[str]()
        for name, size in connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
            sizes[owners.get(name, name)] += size
        rows = {
            table: connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
            for table in set(owners.values())
        }
    return {table: (count, sizes[table]) for table, count in rows.items()}


def resident(pids: Mapping[str, Iterable[int]], name: str) -> dict[str, float]:
    """MiB of each component: `VmRSS`, now, or `VmHWM`, the most so far (proc(5))."""
    return {part: sum(_memory(pid, name) for pid in found) for part, found in pids.items()}


def _memory(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / _MIB
    return 0.0
