"""Whether RocksDB's list of its files is whole.

Where the last record of a MANIFEST is not all there, RocksDB takes it for one over which its writer
died, and opens the database as it was before: silently without the files that were added since. A
record whose length is damaged looks just so, and takes all behind it along. Since a store that is
rebuilt loses nothing, any such end is damage here.

Source: RocksDB's wiki, "Write Ahead Log File Format", which a MANIFEST follows: blocks of 32 KiB,
in them records of checksum, length and type, never across two blocks; zeros where no header fits.
"""

from __future__ import annotations

import struct
from pathlib import Path

_BLOCK = 32_768
_HEADER = struct.Struct("<IHB")
_WHOLE, _LAST = 1, 4  # types: all of an entry, or its last part


def manifest_is_whole(database: Path) -> bool:
    """True also where there is none: RocksDB says so itself, or begins a new database.

    Raises:
        OSError: it cannot be read.
    """
    try:
        current = (database / "CURRENT").read_bytes()
        manifest = (database / current.decode().strip()).read_bytes()
    except (FileNotFoundError, IsADirectoryError, ValueError):
        return True
    return _ends_whole(manifest)


def _ends_whole(manifest: bytes) -> bool:
    at, kind = 0, _WHOLE
    while at < len(manifest):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left
        elif len(manifest) - at < _HEADER.size:
            return False
        else:
            _, length, kind = _HEADER.unpack_from(manifest, at)
            at += _HEADER.size + length
    return at == len(manifest) and kind in {_WHOLE, _LAST}
