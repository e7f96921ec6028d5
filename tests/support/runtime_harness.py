"""A test's stage on each runtime, behind one face: what a test does with all of them.

In memory a crash is `TopologyTestDriver.crash`, on a broker a process that kills itself
(`fault_points`).
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from streams.errors import StageFailed
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.memory_process import OpenTables
from streams.runtime.processor import Header
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter
from streams.state.rocksdb import RocksTables
from streams.state.rocksdb_memory import RocksMemory
from support.conditions import eventually
from support.counting import counting_stage, counting_topology
from support.faulty_process import FaultyProcess
from support.granting import granting_stage, granting_topology
from support.stage_process import Cluster

MEMORY = RocksMemory()
STAGES = {
    "counting": (counting_stage, counting_topology),
    "granting": (granting_stage, granting_topology),
}
Pairs = list[tuple[bytes | None, bytes | None]]
Step = Literal["before_commit", "after_commit", "after_write"]
"""All is sent and nothing committed; committed, the stores do not know it; a store is written."""


def on_disk(folder: Path) -> OpenTables:
    """RocksDB tables in a folder."""
    return lambda stage, store, partition: RocksTables(
        folder / stage / store / str(partition), "test", MEMORY
    )


class RuntimeHarness(Protocol):
    """One stage of two partitions, begun by `start`."""

    def start(self, *set_aside: tuple[str, int, int]) -> None:
        """Begin, sending these records to `dlq` unseen."""

    def stop(self) -> None:
        """End in order."""

    def crash(self, at: Step, *records: tuple[bytes, bytes], disk_lost: bool) -> None:
        """Have it die at a step of the commit of these, and start again, with its disk or not."""

    def fails(self) -> str:
        """Wait until it has ended because it cannot go on; its message."""

    def lose_disk(self) -> None:
        """While it is stopped."""

    def send(
        self, *records: tuple[bytes, bytes], partition: int = 0, timestamp: int | None = None
    ) -> None:
        """Append input, to be read together if it can be."""

    def pass_time(self) -> None:
        """Let punctuations become due."""

    def shows(self, expected: Pairs) -> None:
        """Wait until exactly this is committed to `out`, by partition."""

    def pairs(self) -> Pairs:
        """What is committed to `out`, by partition."""

    def keys(self) -> list[bytes | None]:
        """Of what is committed to `out`."""

    def last_headers(self) -> Sequence[Header]:
        """Of the last record of `out`."""

    def letters(self) -> list[DeadLetter]:
        """What is committed to `dlq`."""

    def close(self) -> None: ...


class DriverHarness:
    """On the test driver, over the tables that it is given."""

    def __init__(self, open_tables: OpenTables | None, stage: str = "counting") -> None:
        make, topology = STAGES[stage]
        self._driver = TopologyTestDriver([make()], topology(), open_tables=open_tables)
        self._stage = stage
        self._failed = ""

    def start(self, *set_aside: tuple[str, int, int]) -> None:
        self._driver.set_aside.clear()
        self._driver.set_aside.update(set_aside)
        self._failed = ""
        self._driver.restart(self._stage, keep_state=True)
        self.send()

    def stop(self) -> None:
        """A process that is idle has nothing to say."""

    def crash(self, at: Step, *records: tuple[bytes, bytes], disk_lost: bool) -> None:
        self._driver.crash(self._stage, at)
        self.send(*records)
        assert self._driver.run_of(self._stage).commits.armed is None, "it did not die"
        if disk_lost:
            self.lose_disk()

    def fails(self) -> str:
        assert self._failed, "it goes on"
        return self._failed

    def lose_disk(self) -> None:
        self._driver.restart(self._stage, keep_state=False)

    def send(
        self, *records: tuple[bytes, bytes], partition: int = 0, timestamp: int | None = None
    ) -> None:
        try:
            with self._driver.together():
                for key, value in records:
                    self._driver.pipe("in", key, value, partition=partition, timestamp=timestamp)
        except StageFailed as failed:
            self._failed = str(failed)

    def pass_time(self) -> None:
        self._driver.advance(1)

    def shows(self, expected: Pairs) -> None:
        assert self.pairs() == expected

    def pairs(self) -> Pairs:
        return [(record.key, record.value) for record in self._driver.output("out")]

    def keys(self) -> list[bytes | None]:
        return [key for key, _ in self.pairs()]

    def last_headers(self) -> Sequence[Header]:
        return list(self._driver.output("out")[-1].headers)

    def letters(self) -> list[DeadLetter]:
        return [DEAD_LETTER.decode(record.value) for record in self._driver.output("dlq")]

    def close(self) -> None:
        self._driver.close()


class BrokerHarness:
    """A process of the stage and a real broker."""

    def __init__(self, kafka: Any, folder: Path, stage: str = "counting") -> None:
        self._cluster = Cluster(kafka, STAGES[stage][1]())
        self._cluster.create()
        self._folder = folder
        self._stage = stage
        self._processes: list[FaultyProcess] = []

    def start(self, *set_aside: tuple[str, int, int]) -> None:
        places = ",".join(":".join(map(str, place)) for place in set_aside)
        own = {"STAGE": self._stage, "TIDEGATE_SET_ASIDE": places}
        settings = self._cluster.environ(self._folder / "data") | own
        log = self._folder / f"{len(self._processes)}.log"
        self._processes.append(FaultyProcess("counting_stage", log, settings))

    def stop(self) -> None:
        assert self._processes[-1].stop() == 0

    def crash(self, at: Step, *records: tuple[bytes, bytes], disk_lost: bool) -> None:
        self._processes[-1].points.arm(at, signal.SIGKILL)
        self.send(*records)
        self._processes[-1].await_fault(at, signal.SIGKILL)
        if disk_lost:
            self.lose_disk()
        self.start()

    def fails(self) -> str:
        assert self._processes[-1].exit_code() == 1
        return str(self._processes[-1].said("stage failed")["error"])

    def lose_disk(self) -> None:
        shutil.rmtree(self._folder / "data")

    def send(
        self, *records: tuple[bytes, bytes], partition: int = 0, timestamp: int | None = None
    ) -> None:
        self._cluster.send("in", records, partition, timestamp or 0)

    def pass_time(self) -> None:
        """It passes by itself."""

    def shows(self, expected: Pairs) -> None:
        eventually(lambda: len(self.keys()) >= len(expected), what=f"{len(expected)} records")
        assert self.pairs() == expected

    def pairs(self) -> Pairs:
        return self._cluster.pairs("out")

    def keys(self) -> list[bytes | None]:
        return [key for key, _ in self.pairs()]

    def last_headers(self) -> Sequence[Header]:
        return self._cluster.read("out")[-1].headers() or ()  # type: ignore[return-value]

    def letters(self) -> list[DeadLetter]:
        return [DEAD_LETTER.decode(m.value()) for m in self._cluster.read("dlq")]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
