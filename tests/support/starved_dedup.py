"""Dedup in a process that runs out of descriptors: `python starved_dedup.py FOLDER`.

Its store has more files than it may hold open, so that lookups open some. It prints what became of
ten events while no descriptor was left, and after the limit was raised.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from rocksdict import Options

from streams import dedup
from streams.errors import StageFailed
from streams.runtime.driver import START_MS, TopologyTestDriver
from streams.serde.codec import HEADER_SIZE
from streams.serde.schemas import current
from streams.state.rocksdb import RocksTables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Tables
from streams.topology.load import load

FEW = 20
"""The least that RocksDB takes; it keeps ten of them for other uses."""
FILES = 40


class Scattered(RocksMemory):
    """Never merges files."""

    def looked_up(self) -> Options:
        options = super().looked_up()
        options.set_disable_auto_compactions(True)
        return options


def event(number: int) -> bytes:
    """As much of an envelope as dedup reads."""
    frame = b"\0" + current("envelope").id.to_bytes(4, "big")
    assert len(frame) == HEADER_SIZE
    return frame + number.to_bytes(16, "big") + b"the rest"


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    with ExitStack() as held:
        with suppress(OSError):
            while True:
                held.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def main(folder: Path) -> None:
    topology, memory, opened = load(), Scattered(max_open_files=FEW), list[RocksTables]()

    def on_disk(stage: str, store: str, partition: int) -> Tables:
        opened.append(RocksTables(folder / store, "test", memory, walked=False))
        return opened[-1]

    driver = TopologyTestDriver([dedup.stage(topology)], topology, 1, on_disk)

    def send(*numbers: int) -> str:
        try:
            with driver.together():
                for n in numbers:
                    driver.pipe("events.received", b"acme", event(n), timestamp=START_MS)
        except StageFailed as failed:
            return str(failed)
        return ""

    for file in range(FILES):
        assert not send(file, 1_000_000 + file)  # so that any file may hold what lies between
        for table in opened[-1]._tables.values():
            table.flush()
    before = len(driver.output("events"))
    with no_descriptor_left():
        failed = send(*range(1_000, 1_010))
    starved = [len(driver.output(topic)) for topic in ("events", "dlq")]
    send()
    after: dict[str, Any] = {"failed": failed, "starved": starved, "before": before}
    after["events"] = len(driver.output("events"))
    after["dlq"] = len(driver.output("dlq"))
    print(json.dumps(after))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
