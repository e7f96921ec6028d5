"""The keys of a stage's compacted inputs of which the newest record so far is a dead letter.

Such a letter may be replayed; that of any other key would overwrite what came after it. A record
that dies adds its key, and a later record of the key that is taken removes it. The entries stand in
a private store of the stage, so that they are true together with its positions. They are looked up
there: memory holds none, however many there are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from streams.runtime.processor import Record
from streams.runtime.stage import Stage
from streams.serde.keys import SEPARATOR, after
from streams.serde.records import DeadLetter
from streams.state.store import KeyValueStore

_PREFIX = b"\xffdead" + SEPARATOR
"""No processor's own keys begin so."""
_OFFSET = struct.Struct(">q")
NO_OFFSET = -1
"""The offset of a record that is handed over before it is in its topic."""
_LAST = 2**63 - 1


class DeadKeys:
    """The dead keys of one task; an entry has the record's offset and the digest of its value.

    The digest keeps a letter from being replayed with another value. It is true if there may be
    entries.
    """

    def __init__(self, stage: Stage, stores: Mapping[str, KeyValueStore]) -> None:
        private = (
            spec.name
            for spec in stage.stores
            if spec.kind == "key_value" and spec.changelog.endswith(".changelog")
        )
        self._inputs = stage.compacted
        self._store = stores.get(next(private, "")) if self._inputs else None
        self._any = False

    def __bool__(self) -> bool:
        return self._any

    def restored(self) -> None:
        """Look whether the store has entries."""
        entries = self._store.range(_PREFIX, after(_PREFIX)) if self._store is not None else ()
        self._any = next(iter(entries), None) is not None

    def add(self, record: Record) -> None:
        """Note that a record, the newest of its key, has become a dead letter."""
        if self._store is not None and record.topic in self._inputs:
            self._store.put(_key(record.topic, record.key), _entry(record.offset, record.value))
            self._any = True

    def discard(self, records: Iterable[Record]) -> None:
        """Forget the keys of which newer records were taken."""
        newest: dict[bytes, int] = {}
        for record in records:
            if record.topic in self._inputs:
                key = _key(record.topic, record.key)
                offset = _LAST if record.offset == NO_OFFSET else record.offset
                newest[key] = max(offset, newest.get(key, NO_OFFSET))
        if newest and self._store is not None:
            entries = self._store.get_many(list(newest))
            for (key, offset), entry in zip(newest.items(), entries, strict=True):
                if entry is not None and offset > _OFFSET.unpack_from(entry)[0]:
                    self._store.delete(key)

    def may_take(self, letter: DeadLetter) -> bool:
        """Whether the stage has read nothing newer than the record of a letter."""
        if letter.topic not in self._inputs:
            return True
        if self._store is None:
            return False
        found = self._store.get(_key(letter.topic, letter.key))
        return found == _entry(letter.offset or 0, letter.value)

    def taken(self, letter: DeadLetter) -> None:
        """Note that the record of a letter, which may be taken, was taken after all."""
        if self._store is not None and letter.topic in self._inputs:
            self._store.delete(_key(letter.topic, letter.key))


def _key(topic: str, key: bytes | None) -> bytes:
    return _PREFIX + topic.encode() + SEPARATOR + (key or b"")


def _entry(offset: int, value: bytes | None) -> bytes:
    return _OFFSET.pack(offset) + blake2b(value or b"", digest_size=16).digest()
