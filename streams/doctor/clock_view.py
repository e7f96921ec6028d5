"""Looks at the brokers' clocks without writing: by the times of what was appended last.

A stage asks for the broker's time by a record to the topic `clock`, which the doctor may not write.
But such records come every 10 s while a stage runs, and a stage keeps what it learned in a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.doctor.looking import ANSWER_SECONDS
from streams.kafka.offsets import Place, request_offsets
from streams.process.boot_clock import boot_seconds
from streams.runtime.broker_clock import TOPIC
from streams.runtime.broker_clock_estimate import DRIFT, Estimate
from streams.runtime.broker_clock_file import BOOT_ID, ClockMemory

CLOCK = (TOPIC, 0)
"""Where stages read the broker's time."""


@dataclass(frozen=True, slots=True)
class KeptTime:
    """The broker's time is between these, by what a stage has kept; they part by 500 ppm.

    `age_ms` is how long ago the stage read it, and believed it.
    """

    earliest: float
    latest: float
    age_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ClocksSeen:
    """Times in milliseconds since 1970, as of `wall`, this machine's own.

    `kept` is the broker's time by each stage of this machine; `appended` has the time of the newest
    record of each place whose time is its broker's.
    """

    wall: float
    kept: Mapping[str, KeptTime] = field(default_factory=dict)
    appended: Mapping[Place, int] = field(default_factory=dict)


def read_clocks(
    admin: AdminClient, prefix: str, places: Iterable[Place], memories: Mapping[str, Path]
) -> ClocksSeen:
    """Ask for the newest append times of these places, and recall what stages have kept."""
    newest: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
    answers = request_offsets(admin, prefix, places, newest, ANSWER_SECONDS)
    times = {place: answer.result().timestamp for place, answer in answers.items()}
    appended = {place: at for place, at in times.items() if at >= 0}
    return ClocksSeen(time.time() * 1000, recalled(memories), appended)


def kept_memories(data_dir: Path) -> dict[str, Path]:
    """The files in which stages of this directory keep the broker's time, by stage/instance."""
    files = sorted((data_dir / "state").glob("*/*/clock"))
    return {f"{file.parent.parent.name}/{file.parent.name}": file for file in files}


def recalled(
    memories: Mapping[str, Path],
    boot: Callable[[], float] = boot_seconds,
    boot_id: Path = BOOT_ID,
) -> dict[str, KeptTime]:
    """What the stages have kept since this machine was started; `boot` is its clock in seconds."""
    now = boot() * 1000
    found = {name: ClockMemory(path, boot_id).recall(now) for name, path in memories.items()}
    return {name: _kept(each, now) for name, each in found.items() if each is not None}


def _kept(estimate: Estimate, boot_ms: float) -> KeptTime:
    age = boot_ms - estimate.at
    return KeptTime(
        boot_ms + estimate.low - age * DRIFT, boot_ms + estimate.high + age * DRIFT, age
    )
