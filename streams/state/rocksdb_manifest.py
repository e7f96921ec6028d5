"""Whether RocksDB's list of its files is complete.

If the last record of a MANIFEST is incomplete, RocksDB assumes that its writer died while writing
it. It then opens the database as it was before, and silently leaves out the files that were added
since. A record with a damaged length looks the same, and hides every record after it. Rebuilding a
store loses nothing, so any such end counts as damage here.

Source: RocksDB's wiki, "Write Ahead Log File Format", which a MANIFEST follows: blocks of 32 KiB
contain records of checksum, length and type. A record never spans two blocks, and zeros fill a
block's end where no header fits.
"""

from __future__ import annotations

import struct
from pathlib import Path

_BLOCK = 32_768
_HEADER = struct.Struct("<IHB")
_WHOLE, _LAST = 1, 4  # record types: a whole entry, or its last part


def manifest_is_whole(database: Path) -> bool:
    """Whether the MANIFEST is whole; True if there is none, which RocksDB handles itself.

    Raises:
        OSError: the MANIFEST cannot be read.
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
