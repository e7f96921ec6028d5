"""What a stage keeps in its store of the entries that it writes for one partition.

That is the head of its chain, so that an entry links to the one before it, and the ids of the
commands that it has answered, so that a command which is read twice is decided once. Both change
in the transaction of the decision, and are undone with it: nothing is kept in memory.

Keys, after the prefix of the stage: `h` holds the head; `c` digest a command that was answered;
`t` time digest says when that is forgotten.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import islice
from typing import Protocol

from streams.audit.chain import Head, chain_of, head_of, linked
from streams.audit.entries import TOPIC, encoded
from streams.serde.records import AuditEntry
from streams.state.store import KeyValueStore

_HEAD, _ANSWERED, _FORGET = b"h", b"c", b"t"
_TIME = struct.Struct(">Q")
_KEPT_MS = 30 * 86_400_000
"""How long answered commands are remembered: as long as `dlq` may keep one to be sent in again."""
_FORGOTTEN_AT_ONCE = 4


class _Forward(Protocol):
    def __call__(self, topic: str, key: bytes | None, value: bytes | None, /) -> None: ...


class StageLog:
    """One stage's entries of one partition; `prefix` is its key space in the stage's own store."""

    def __init__(self, stage: str, partition: int, prefix: bytes) -> None:
        self._chain = chain_of(stage, partition)
        self._prefix = prefix

    def has_answered(self, store: KeyValueStore, command_id: str) -> bool:
        """Whether a command with this id was answered before."""
        return store.get(self._prefix + _ANSWERED + _digest(command_id)) is not None

    def answer(
        self, store: KeyValueStore, forward: _Forward, entry: AuditEntry, command_id: str, now: int
    ) -> None:
        """Write the entry that answers a command; `now` is in milliseconds."""
        key = self._prefix + _HEAD
        written = linked(entry, Head.decode(self._chain, store.get(key)))
        digest = _digest(command_id)
        store.put(key, head_of(written).encode())
        store.put(self._prefix + _ANSWERED + digest, b"")
        store.put(self._prefix + _FORGET + _TIME.pack(now + _KEPT_MS) + digest, b"")
        self._forget(store, now)
        forward(TOPIC, *encoded(written))

    def _forget(self, store: KeyValueStore, now: int) -> None:
        """Forget some of the oldest commands: more than one for each that is answered."""
        start = self._prefix + _FORGET
        due = store.range(start, start + _TIME.pack(now + 1))
        for key, _ in list(islice(due, _FORGOTTEN_AT_ONCE)):
            store.delete(key)
            store.delete(self._prefix + _ANSWERED + key[len(start) + _TIME.size :])


def _digest(command_id: str) -> bytes:
    return blake2b(command_id.encode(), digest_size=16).digest()
