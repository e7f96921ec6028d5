"""The keys of a stage's compacted inputs of which the newest record so far is a dead letter.

Such a letter may be replayed; that of any other key would overwrite what came after it. A record
that dies adds its key, and a later record of the key that is taken removes it. The entries stand in
a private store of the stage, so that they are true together with its positions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from streams.runtime.processor import Record, Stage
from streams.serde.keys import SEPARATOR, after
from streams.serde.records import DeadLetter
from streams.state.store import KeyValueStore

_PREFIX = b"\xffdead" + SEPARATOR
"""No processor's own keys begin so."""
_OFFSET = struct.Struct(">q")
NO_OFFSET = -1
"""The offset of a record that is handed over before it is in its topic."""


class DeadKeys:
    """The dead keys of one task; an entry has the record's offset and the digest of its value.

    The digest keeps a letter from being replayed with another value.
    """

    def __init__(self, stage: Stage, stores: Mapping[str, KeyValueStore]) -> None:
        self._inputs = stage.letters.compacted if stage.letters else frozenset[str]()
        private = (
            spec.name for spec in stage.stores
            if spec.kind == "key_value" and spec.changelog.endswith(".changelog")
        )  # fmt: skip
        self._store = stores.get(next(private, "")) if self._inputs else None
        self._offsets: dict[bytes, int] = {}
        self._changed = False

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def restored(self) -> None:
        """Load the entries from the store."""
        self._load()
        self._changed = False

    def undone(self) -> None:
        """Load the entries again if writes that may concern them were taken back."""
        if self._changed:
            self._load()

    def committed(self) -> None:
        self._changed = False

    def add(self, record: Record) -> None:
        """Note that a record, the newest of its key, has become a dead letter."""
        if self._store is not None and record.topic in self._inputs:
            key = _key(record.topic, record.key)
            self._store.put(key, _entry(record.offset, record.value))
            self._offsets[key] = record.offset
            self._changed = True

    def discard(self, records: Iterable[Record]) -> None:
        """Forget the keys of which newer records were taken."""
        for record in records:
            if record.topic in self._inputs:
                key = _key(record.topic, record.key)
                died = self._offsets.get(key)
                if died is not None and (record.offset == NO_OFFSET or record.offset > died):
                    self._remove(key)

    def may_take(self, letter: DeadLetter) -> bool:
        """Whether the stage has read nothing newer than the record of a letter."""
        if letter.topic not in self._inputs:
            return True
        if self._store is None:
            return False
        found = self._store.get(_key(letter.topic, letter.key))
        return found == _entry(letter.offset or 0, letter.value)

    def taken(self, letter: DeadLetter) -> None:
        """Note that the record of a letter was taken after all."""
        if letter.topic in self._inputs:
            self._remove(_key(letter.topic, letter.key))

    def _load(self) -> None:
        found = self._store.range(_PREFIX, after(_PREFIX)) if self._store is not None else ()
        self._offsets = {key: _OFFSET.unpack_from(value)[0] for key, value in found}

    def _remove(self, key: bytes) -> None:
        if self._store is not None and self._offsets.pop(key, None) is not None:
            self._store.delete(key)
            self._changed = True


def _key(topic: str, key: bytes | None) -> bytes:
    return _PREFIX + topic.encode() + SEPARATOR + (key or b"")


def _entry(offset: int, value: bytes | None) -> bytes:
    return _OFFSET.pack(offset) + blake2b(value or b"", digest_size=16).digest()
