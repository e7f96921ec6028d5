"""Who does the dedup, with the settings that were found best for each (contenders/README.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contenders import environments
from dedup_speed import Speed, Stalled, measure, running
from dedup_topic import OUTPUT, TOPOLOGY, Faults, create, faults
from harness import variants
from outside import HERE, GroupOffsets

Settings = Mapping[str, str]
SCHEMA = HERE.parent / "schemas" / "envelope.avsc"


@dataclass(frozen=True)
class Wiring:
    """Where a contender works: its group and output are new, its state an empty folder."""

    bootstrap: str
    input: str
    output: str
    group: str
    state: Path

    def arguments(self) -> list[str]:
        return [f"{name}={value}" for name, value in vars(self).items()]


@dataclass(frozen=True)
class Contender:
    """`swept` are the values tried for each setting, one at a time around `settings`.

    `share` of the events is what it is given: all, or fewer where it would take too long.
    """

    name: str
    promise: str
    command: Callable[[Wiring, Settings], list[str]]
    settings: Settings = field(default_factory=dict)
    swept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    share: float = 1.0

    def variants(self) -> list[tuple[str, Settings]]:
        """What a sweep runs: the settings as they are, first and last, and each one changed."""
        return variants(self.settings, self.swept)


@dataclass(frozen=True)
class Input:
    """A filled topic."""

    topic: str
    events: int
    expected: set[bytes]


@dataclass(frozen=True)
class Row:
    """One contender's run; it counts only if its output was right."""

    name: str
    promise: str
    events: int
    speed: Speed | None
    faults: Faults | None
    verdict: str

    @property
    def void(self) -> bool:
        return self.speed is None or self.faults is None or bool(self.faults.total)


def run(
    name: str, contender: Contender, settings: Settings, bootstrap: str, given: Input, folder: Path
) -> Row:
    """Let a contender work the input through, then judge its output.

    Raises:
        Unavailable: it cannot run on this machine.
    """
    place = _place(contender, bootstrap, given, folder)
    offsets = GroupOffsets(bootstrap, place.group, TOPOLOGY, given.topic)
    try:
        with running(contender.command(place, settings), folder / f"{place.group}.log") as process:
            speed = measure(offsets, [process], given.events)
    except Stalled as why:
        return Row(name, contender.promise, given.events, None, None, f"VOID: {why}")
    finally:
        offsets.close()
    found = faults(bootstrap, place.output, given.expected)
    return Row(name, contender.promise, given.events, speed, found, str(found))


def _place(contender: Contender, bootstrap: str, given: Input, folder: Path) -> Wiring:
    if contender is TIDEGATE:
        return Wiring(bootstrap, given.topic, OUTPUT, "dedup", folder / "state")
    number = len(list(folder.glob(f"{contender.name}-*.log")))
    group = f"{contender.name}-{number}"
    create(bootstrap, f"{group}.unique")
    return Wiring(bootstrap, given.topic, f"{group}.unique", group, folder / group)


def stage_command(bootstrap: str, state: Path, *flags: str) -> list[str]:
    """`tidegate dedup`, as a pod would run it."""
    return [
        sys.executable,
        "-m",
        "streams.cli",
        "dedup",
        "--bootstrap",
        bootstrap,
        "--data-dir",
        str(state),
        *flags,
    ]


def _tidegate(place: Wiring, settings: Settings) -> list[str]:
    return stage_command(place.bootstrap, place.state)


def _bare(place: Wiring, settings: Settings) -> list[str]:
    return [sys.executable, str(HERE / "contenders" / "bare.py"), *place.arguments()]


def _quix(place: Wiring, settings: Settings) -> list[str]:
    program = str(HERE / "contenders" / "quix.py")
    return [str(environments.python("quix")), program, *place.arguments(), *_pairs(settings)]


def _faust(place: Wiring, settings: Settings) -> list[str]:
    program = str(HERE / "contenders" / "faust_app.py")
    partitions = f"partitions={TOPOLOGY.partitions}"
    own = [*place.arguments(), partitions, *_pairs(settings)]
    return [str(environments.python("faust")), program, *own]


def _kafka_streams(place: Wiring, settings: Settings) -> list[str]:
    java, *rest = environments.java()
    machine = settings["java"].split()
    options = {name: value for name, value in settings.items() if name != "java"}
    return [java, *machine, *rest, "Dedup", *place.arguments(), *_pairs(options)]


def _pairs(settings: Settings) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


TIDEGATE = Contender("tidegate", "exactly once", _tidegate)
BARE = Contender("bare", "exactly once, if nothing fails", _bare)
QUIX = Contender(
    "quix",
    "exactly once",
    _quix,
    settings={
        "commit_interval": "1",
        "commit_every": "0",
        "ttl_days": "7",
        "buffer": "10000",
        "producer.compression.type": "lz4",
        "producer.linger.ms": "20",
        "producer.queue.buffering.max.messages": "1000000",
        "consumer.queued.min.messages": "100000",
    },
    swept={
        "commit_interval": ("0.5", "2", "5"),
        "commit_every": ("10000", "50000"),
        "ttl_days": ("0",),
        "buffer": ("1000", "100000"),
        "producer.linger.ms": ("5", "100"),
        "producer.compression.type": ("none",),
        "producer.batch.num.messages": ("50000",),
        "consumer.queued.min.messages": ("500000",),
        "consumer.fetch.min.bytes": ("100000",),
        "consumer.check.crcs": ("false",),
    },
)
FAUST = Contender(
    "faust",
    "at least once",
    _faust,
    settings={
        "loop": "uvloop",
        "store": "rocksdb://",
        "stream_buffer_maxsize": "65536",
        "broker_max_poll_records": "20000",
        "broker_commit_every": "10000",
        "broker_commit_interval": "1",
        "stream_wait_empty": "false",
        "producer_acks": "-1",
        "producer_linger": "0.1",
        "producer_max_batch_size": "262144",
        "producer_compression_type": "lz4",
    },
    swept={
        "loop": ("asyncio",),
        "store": ("memory://",),
        "stream_buffer_maxsize": ("4096", "16384"),
        "broker_max_poll_records": ("500", "5000"),
        "broker_commit_every": ("1000", "100000"),
        "broker_commit_interval": ("2.8",),
        "producer_linger": ("0.005", "0.5"),
        "producer_max_batch_size": ("16384", "1048576"),
        "producer_compression_type": ("null",),
        "producer_threaded": ("true",),
    },
    share=0.1,
)
_KAFKA_STREAMS: Settings = {
    "java": "-XX:+UseParallelGC -Xms1g -Xmx1g",
    "key": "sliced",
    "lookup": "point",
    "cached": "false",
    "commit.interval.ms": "1000",
    "consumer.max.poll.records": "5000",
    "producer.linger.ms": "20",
    "producer.compression.type": "lz4",
    "producer.batch.size": "131072",
    "buffered.records.per.partition": "1000",
    "write.buffer.mib": "16",
}
KAFKA_STREAMS = Contender(
    "kafka-streams",
    "exactly once",
    _kafka_streams,
    settings=_KAFKA_STREAMS,
    swept={
        "lookup": ("range",),
        "cached": ("true",),
        "commit.interval.ms": ("100", "500", "5000"),
        "consumer.max.poll.records": ("1000", "10000"),
        "consumer.fetch.min.bytes": ("100000",),
        "consumer.max.partition.fetch.bytes": ("8388608",),
        "consumer.check.crcs": ("false",),
        "producer.linger.ms": ("0", "5", "100"),
        "producer.batch.size": ("16384", "524288"),
        "buffered.records.per.partition": ("10000",),
        "write.buffer.mib": ("64",),
        "java": (
            "-XX:+UseG1GC -Xms1g -Xmx1g",
            "-XX:+UseSerialGC -Xms1g -Xmx1g",
            "-XX:+UseParallelGC",
        ),
    },
)
KAFKA_STREAMS_AVRO = Contender(
    "kafka-streams-avro",
    "exactly once",
    _kafka_streams,
    settings={**_KAFKA_STREAMS, "key": "decoded", "schema": str(SCHEMA)},
    swept=KAFKA_STREAMS.swept,
)
ALL = {c.name: c for c in (TIDEGATE, BARE, QUIX, FAUST, KAFKA_STREAMS, KAFKA_STREAMS_AVRO)}
