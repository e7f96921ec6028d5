"""Kafka's metadata log, `__cluster_metadata-0`: what a node that has partitions must have in it.

Kafka itself would truncate a damaged metadata log to nothing, or make a new one where it is gone.
It then starts as a new cluster and deletes the partitions that it does not know.
"""

from __future__ import annotations

from pathlib import Path

_LOG = "__cluster_metadata-0"
_HEAD_BYTES = 17
_MAGIC = b"\x02"


def partitions(data: Path) -> list[str]:
    """Names of the partitions' directories in Kafka's log directory, the metadata log included."""
    return sorted(path.name for path in data.glob("*-[0-9]*") if path.is_dir())


def damage(data: Path) -> str | None:
    """What is wrong with the metadata log in Kafka's log directory; None if it may be used.

    Each segment must start with a whole record batch of its own offset. Beside partitions, one
    segment or snapshot at least must not be empty: the topics stand in it.
    """
    heads = {path: _head(path) for path in sorted((data / _LOG).glob("*.log"))}
    for segment, head in heads.items():
        of_its_offset = int.from_bytes(head[:8], "big") == int(segment.stem)
        if len(head) == _HEAD_BYTES and not (of_its_offset and _is_batch(head)):
            return f"{segment} is not a metadata log"
    # KIP-630: `<end offset>-<epoch>.checkpoint`; a file `<offset>.snapshot` holds producers.
    snapshots = [_head(path) for path in (data / _LOG).glob("[0-9]*-[0-9]*.checkpoint")]
    beside = [name for name in partitions(data) if name != _LOG]
    if beside and not any(_is_batch(head) for head in [*heads.values(), *snapshots]):
        return f"{data / _LOG} has no metadata beside partitions ({beside[0]})"
    return None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _is_batch(head: bytes) -> bool:
    """Whether a file's head is that of a record batch: its last byte is the magic (KIP-98)."""
    return head[_HEAD_BYTES - 1 :] == _MAGIC
