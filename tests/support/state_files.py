"""The files of a stopped stage's stores: flipped, and told that they are another's."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

from rocksdict import Options, Rdict

_POSITION = struct.Struct(">qqq")


def flip(store: Path, pattern: str, seeded: random.Random) -> str:
    """Flip some bits of one byte of the largest such file of a store; which it was.

    Within the first half: of a table of keys that is data, not what describes it.
    """
    file = max(store.glob(pattern), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    assert data, f"{file} is empty: there is nothing to flip"
    at, bits = seeded.randrange((len(data) + 1) // 2), seeded.randrange(1, 256)
    data[at] ^= bits
    file.write_bytes(data)
    return f"{file.name}, byte {at} of {len(data)}, bits {bits:08b}"


def claim(store: Path, of: str, instead: str) -> None:
    """Have a store say that it is another's: `of` stands in its identity, and is replaced."""

    def change(database: Rdict) -> None:
        identity = (database[b"identity"] or b"").decode()
        assert of in identity
        database[b"identity"] = identity.replace(of, instead).encode()

    _with_database(store, change)


def advance(store: Path, records: int) -> None:
    """Have a store say that it holds so many changelog records more than it does."""

    def change(database: Rdict) -> None:
        offset, *times = _POSITION.unpack(database[b"checkpoint"] or b"")
        database[b"checkpoint"] = _POSITION.pack(offset + records, *times)

    _with_database(store, change)


def _with_database(store: Path, change: Callable[[Rdict], None]) -> None:
    options = Options(raw_mode=True)
    names = Rdict.list_cf(str(store), options)
    database = Rdict(str(store), options, column_families=dict.fromkeys(names, options))
    change(database)
    database.close()
