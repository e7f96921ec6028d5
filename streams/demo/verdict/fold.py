"""Compares the stores on disk with the fold of their committed changelogs (G6).

They are read with RocksDB itself and a consumer of the demo's own, once the stages have stopped;
none of the code that wrote the stores takes part.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rocksdict import AccessType, Options, Rdict

from streams.demo.verdict.committed import CommittedReader
from streams.errors import TidegateError
from streams.kafka.offsets import Place
from streams.settings import Settings
from streams.topology.model import StoreDeclaration, Topology

_META = "default"
_CHECKPOINT = b"checkpoint"
_POSITION = struct.Struct(">qqq")
_BUNDLE = b"bundle:"
_RUN = struct.Struct(">III")
_DELETED = 2**32 - 1
_INDEX = b"\0"
"""How keys of an index begin, which follows from the rows beside it and is on no changelog."""

Entry = tuple[int, bytes, bytes | None]
"""Offset of a changelog record, with a key and value (None: deleted) from it."""


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One store directory: `keys` were compared, and `differing` of them differ from the changelog.

    `current` says that nothing committed comes after its checkpoint.
    """

    name: str
    place: str
    keys: int
    differing: tuple[str, ...]
    current: bool


def examine(settings: Settings, topology: Topology) -> list[StoreFinding]:
    """Examine every store directory of the data directory.

    Raises:
        TidegateError: a store cannot be opened; it names the directory.
    """
    changelogs = _read_changelogs(settings, topology)
    return [
        compare(path, declared, changelogs[declared.changelog, int(path.name)])
        for declared in _declared(topology)
        for path in sorted((settings.data_dir / "state").glob(f"*/*/{declared.name}/*"))
    ]


def compare(path: Path, declared: StoreDeclaration, entries: list[Entry]) -> StoreFinding:
    """Compare one directory with the records of its changelog partition, in order."""
    checkpoint, contents = _contents(path)
    found = {key: value for key, value in contents.items() if not key.startswith(_INDEX)}
    expected: dict[bytes, bytes] = {}
    for offset, key, value in entries:
        if offset >= checkpoint:
            break
        if value is None:
            expected.pop(key, None)
        else:
            expected[key] = value
    keys = found.keys() | expected.keys()
    return StoreFinding(
        name=declared.name,
        place=f"{path.parent.parent.name}/{declared.name}/{path.name}",
        keys=len(keys),
        differing=tuple(sorted(repr(k) for k in keys if found.get(k) != expected.get(k))),
        current=not entries or entries[-1][0] < checkpoint,
    )


def _declared(topology: Topology) -> Iterator[StoreDeclaration]:
    for stage in topology.stages.values():
        yield from stage.stores


def _read_changelogs(settings: Settings, topology: Topology) -> dict[Place, list[Entry]]:
    kinds = {declared.changelog: declared.kind for declared in _declared(topology)}
    changelogs: dict[Place, list[Entry]] = defaultdict(list)
    with CommittedReader(settings, kinds) as reader:
        ends = reader.ends()
        while not reader.reached(ends):
            for message in reader.read(2_000, 0.1):
                place, offset = reader.place(message), message.offset() or 0
                key, value = message.key() or b"", message.value()
                bundled = kinds[place[0]] == "window" and key.startswith(_BUNDLE)
                told = in_bundle(value or b"") if bundled else [(key, value)]
                changelogs[place] += [(offset, *change) for change in told]
    return changelogs


def in_bundle(bundle: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """The changes in one record of a window store's changelog."""
    while bundle:
        number, key_size, value_size = _RUN.unpack_from(bundle)
        bundle = bundle[_RUN.size :]
        keys = [bundle[i * key_size : (i + 1) * key_size] for i in range(number)]
        bundle = bundle[number * key_size :]
        size = 0 if value_size == _DELETED else value_size
        for i, key in enumerate(keys):
            value = bundle[i * size : (i + 1) * size]
            yield key, None if value_size == _DELETED else value
        bundle = bundle[number * size :]


def _contents(path: Path) -> tuple[int, dict[bytes, bytes]]:
    """The changelog offset up to which a store is folded in, and its entries."""
    options = Options(raw_mode=True)
    try:
        families = Rdict.list_cf(str(path), options)
        named = dict.fromkeys(families, options)
        store = Rdict(str(path), options, column_families=named, access_type=AccessType.read_only())
    except Exception as error:  # rocksdict raises plain exceptions
        raise TidegateError(f"the store {path} cannot be opened: {error}") from error
    entries: dict[bytes, bytes] = {}
    for name in families:
        if name != _META:
            for key, value in store.get_column_family(name).items():
                entries[cast("bytes", key)] = value
    position: bytes | None = store.get(_CHECKPOINT)
    store.close()
    return (int(_POSITION.unpack(position)[0]) if position else 0), entries
