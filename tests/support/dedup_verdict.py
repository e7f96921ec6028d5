"""What a fault must not have done to a stage that passes each key on once, found from outside.

Each check reads topics and store directories, not the stage's own figures, and answers with the
violations that it found. `test_verdict.py` injects each of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Message

from streams.runtime.backends import backend_for, fold
from streams.runtime.stage import StoreSpec
from streams.runtime.state_directory import StateDirectory
from streams.runtime.topics import Changelog
from streams.serde.codec import DUPLICATE
from streams.settings import Settings
from streams.state.memory import MemoryTables
from streams.state.store import Backend, Checkpoint
from support.conditions import eventually
from support.stage_process import Cluster

FINGERPRINT = slice(5, 21)
"""Of a framed envelope (`streams.dedup.processor`)."""
_FROM, _TO = b"", b"\xff" * 64


@dataclass(frozen=True)
class Violation:
    """`what` is lost, repeated, foreign, miscounted, unfinished, store_differs, store_behind,
    open_transaction, unclean_stop or dead_letter; `which` are some of the keys or places."""

    what: str
    where: str
    number: int
    which: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoreCopy:
    """One directory of a partition's store, read once no process has it open."""

    path: str
    partition: int
    checkpoint: Checkpoint | None
    entries: dict[bytes, bytes]


def once_each(expected: Iterable[bytes], found: Sequence[bytes], where: str) -> Iterator[Violation]:
    """Every expected key exactly once, and no other."""
    counted, wanted = Counter(found), set(expected)
    yield from _unless_empty("lost", where, wanted - counted.keys())
    yield from _unless_empty("foreign", where, counted.keys() - wanted)
    yield from _unless_empty("repeated", where, {key for key, n in counted.items() if n > 1})


def duplicates_counted(
    times: Mapping[bytes, int], arrived: Sequence[bytes], duplicates: Sequence[Message]
) -> Iterator[Violation]:
    """The last count of each key is that of all its deliveries but the first.

    So no delivery was processed twice or by nobody, which nothing else of dedup's would tell.
    `arrived` are the values on the input, where each delivery has to be. It may be there twice:
    librdkafka's idempotent producer takes a new epoch after an error on one partition, and then
    sends batches of others again that the broker had stored before it was killed
    (librdkafka#4953). Each delivery has an event id of its own, so a copy of one has the same
    bytes. Dedup has to count copies as it counts any redelivery.
    """
    keys = [value[FINGERPRINT] for value in set(arrived)]
    yield from _unequal("events.received", times, _counted(times, keys))
    on_topic = _counted(times, [value[FINGERPRINT] for value in arrived])
    counted = {m.key() or b"": DUPLICATE.decode(m.value() or b"").count + 1 for m in duplicates}
    yield from _unequal("duplicates", on_topic, {**dict.fromkeys(on_topic, 1), **counted})


def stores_as_changelogs(
    spec: StoreSpec, copies: Sequence[StoreCopy], changelog: Sequence[Message]
) -> Iterator[Violation]:
    """Every copy is the fold of the committed changelog up to its checkpoint, and one of each
    partition has all of it (G6)."""
    by_partition: dict[int, list[Message]] = {}
    for message in changelog:
        by_partition.setdefault(message.partition() or 0, []).append(message)
    for copy in copies:
        expected = _folded(spec, by_partition.get(copy.partition, []), copy.checkpoint)
        keys = expected.keys() | copy.entries.keys()
        differing = {k for k in keys if expected.get(k) != copy.entries.get(k)}
        yield from _unless_empty("store_differs", copy.path, differing)
    for partition, messages in sorted(by_partition.items()):
        end = (messages[-1].offset() or 0) + 1
        reached = [c.checkpoint.offset for c in copies if c.partition == partition and c.checkpoint]
        if max(reached, default=0) < end:
            yield Violation("store_behind", f"partition {partition}", end - max(reached, default=0))


def no_open_transaction(cluster: Cluster, topics: Iterable[str], seconds: float) -> list[Violation]:
    """Within some seconds nothing on the topics is held back from read_committed readers."""
    deadline = time.monotonic() + seconds
    found = []
    for topic in topics:
        try:
            eventually(
                lambda: not cluster.held_back(topic),  # noqa: B023
                max(0, deadline - time.monotonic()),
                what="the last stable offset is the end",
            )
        except AssertionError:
            held = cluster.held_back(topic)
            found.append(
                Violation("open_transaction", topic, sum(held.values()), tuple(map(str, held)))
            )
    return found


def copies(
    settings: Sequence[Settings], stage: str, spec: StoreSpec, changelog: Changelog, width: int
) -> list[StoreCopy]:
    """Every directory of a store, of all instances; read with the code that wrote them.

    A damaged one is wiped by being opened: these are paths of a copy.
    """
    found = []
    for each in settings:
        directory = StateDirectory(each, stage, width)
        for partition in range(width):
            path = directory.path(spec.name, partition)
            if path.exists():
                backend = directory.open(spec, partition, changelog)
                entries = dict(backend.range(_FROM, _TO))
                found.append(StoreCopy(_short(path), partition, backend.checkpoint(), entries))
                backend.close()
    return found


def _folded(
    spec: StoreSpec, messages: Iterable[Message], checkpoint: Checkpoint | None
) -> Mapping[bytes, bytes]:
    if checkpoint is None:
        return {}
    backend: Backend = backend_for(spec, MemoryTables())
    told = [m for m in messages if (m.offset() or 0) < checkpoint.offset]
    changes = backend.from_changelog((m.key() or b"", m.value()) for m in told)
    newest = max((m.timestamp()[1] for m in told), default=0)
    fold(backend, changes, newest, checkpoint.offset, checkpoint.written_at_ms)
    return dict(backend.range(_FROM, _TO))


def _counted(times: Mapping[bytes, int], keys: Iterable[bytes]) -> Counter[bytes]:
    return Counter(key for key in keys if key in times)  # a test may put garbage on the topic


def _unequal(
    where: str, expected: Mapping[bytes, int], found: Mapping[bytes, int]
) -> Iterator[Violation]:
    keys = expected.keys() | found.keys()
    wrong = {key for key in keys if expected.get(key, 0) != found.get(key, 0)}
    if wrong:
        some = tuple(
            f"{key.hex()}: {found.get(key, 0)}, not {expected.get(key, 0)}"
            for key in sorted(wrong)[:10]
        )
        yield Violation("miscounted", where, len(wrong), some)


def _unless_empty(what: str, where: str, keys: set[bytes]) -> Iterator[Violation]:
    if keys:
        yield Violation(what, where, len(keys), tuple(sorted(key.hex() for key in keys)[:3]))


def _short(path: Path) -> str:
    return "/".join(path.parts[-3:])
