"""Links entries to a chain, and finds where a chain is broken.

Each entry has the number after that of the entry before it, and the hash of that entry, so a
record that is missing, doubled, moved or altered shows. Two ends do not show in the chain alone:
the oldest entries, which the topic's retention deletes, and the newest, which only the writer's
own head tells of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from streams import user_json
from streams.serde.records import AuditEntry

_SEQ_BYTES = 8


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain: number and hash of its newest entry; (0, nothing) before the first."""

    chain: str
    seq: int = 0
    hash: bytes = b""

    def encode(self) -> bytes:
        """The head as a value of its writer's store, which has the chain's name in the key."""
        return self.seq.to_bytes(_SEQ_BYTES, "big") + self.hash

    @classmethod
    def decode(cls, chain: str, value: bytes | None) -> Head:
        """The head in a value of the store; None: nothing was written yet."""
        if value is None:
            return cls(chain)
        return cls(chain, int.from_bytes(value[:_SEQ_BYTES], "big"), value[_SEQ_BYTES:])


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a chain is broken: the entry that does not follow the one before it."""

    entry: AuditEntry
    why: str


def chain_of(writer: str, partition: int) -> str:
    """The name of the one chain that a writer has in a partition."""
    return f"{writer}:{partition}"


def head_of(entry: AuditEntry) -> Head:
    """The head of a chain whose newest entry this is."""
    return Head(entry.chain, entry.seq, entry.hash)


def linked(entry: AuditEntry, head: Head) -> AuditEntry:
    """An entry as the next one of a chain."""
    seq = head.seq + 1
    id_ = f"{head.chain}:{seq}"
    placed = replace(entry, id=id_, chain=head.chain, seq=seq, previous=head.hash, hash=b"")
    return replace(placed, hash=digest(placed))


def digest(entry: AuditEntry) -> bytes:
    """The hash that an entry must have: SHA-256 of all its other fields as canonical JSON.

    Bytes are in hex. Fields without a value are left out, so that a field of a later release
    leaves the hashes of earlier entries as they are.
    """
    fields = {n: v for n, v in asdict(entry).items() if v is not None and n != "hash"}
    return user_json.digest(fields | {"previous": entry.previous.hex()})


class Verifier:
    """Follows the chains of a topic through its entries, in the order of their partitions.

    The first entry that is seen of a chain is believed, unless it says that it is the first of all.
    """

    def __init__(self) -> None:
        self._heads: dict[str, Head] = {}

    @property
    def heads(self) -> dict[str, Head]:
        """The newest entry of each chain."""
        return dict(self._heads)

    def take(self, entry: AuditEntry) -> Break | None:
        """Check the next entry; None if its chain is whole up to it."""
        head = self._heads.get(entry.chain)
        self._heads[entry.chain] = head_of(entry)
        why = _fault(entry, head)
        return None if why is None else Break(entry, why)


def verify(entries: Iterable[AuditEntry]) -> Iterator[Break]:
    """Every place where the chains of these entries are broken."""
    verifier = Verifier()
    for entry in entries:
        found = verifier.take(entry)
        if found is not None:
            yield found


def _fault(entry: AuditEntry, head: Head | None) -> str | None:
    if entry.hash != digest(entry) or entry.id != f"{entry.chain}:{entry.seq}":
        return "its hash does not fit its fields: the entry was altered"
    if head is None:
        begins = entry.seq > 1 or not entry.previous
        return None if begins else "it is the first of its chain, and has one before it"
    if entry.seq > head.seq + 1:
        missing = entry.seq - head.seq - 1
        return f"{missing} before it, after number {head.seq}, are missing"
    if entry.seq <= head.seq:
        return f"number {entry.seq} comes after number {head.seq}"
    return None if entry.previous == head.hash else "it follows another entry than the one before"
