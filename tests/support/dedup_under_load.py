"""The dedup stage under load, for tests of faults: topics, a flood, processes, and the verdict.

with DedupUnderLoad(kafka, tmp_path, seed) as dedup:
    stage = dedup.start()
    dedup.await_recovery("start")
    stage.fault("after_commit")         # SIGKILL there; `stage.freeze()` stops it anywhere
    dedup.start()
    dedup.await_recovery("kill")        # prints the seconds; fails after 20
    assert dedup.verdict() == []        # ends flood and processes, examines everything
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Self

from streams.dedup.processor import stage
from streams.runtime.topics import Topics
from streams.settings import load_settings
from streams.state.bundle import changes_in
from streams.topology.load import load
from support.dedup_verdict import (
    FINGERPRINT,
    StoreCopy,
    Violation,
    copies,
    duplicates_counted,
    no_open_transaction,
    once_each,
    stores_as_changelogs,
)
from support.faulty_process import FaultyProcess
from support.flood import Flood
from support.group_progress import RECOVERY_SECONDS, GroupProgress
from support.stage_process import Cluster

if TYPE_CHECKING:
    from support.kafka_under_test import KafkaUnderTest

TOPICS = ("events.received", "events", "duplicates", "dedup.seen.changelog", "dlq", "clock")


def chosen_seed() -> int:
    """`TIDEGATE_TEST_SEED`, or a fresh one."""
    return int(os.environ.get("TIDEGATE_TEST_SEED") or random.SystemRandom().randrange(2**32))


class DedupUnderLoad:
    """One test's topics under a prefix of their own, with a flood on `events.received`.

    `seed` decides the flood's keys and `random`; it is printed with all that is found.
    """

    def __init__(
        self, kafka: KafkaUnderTest, folder: Path, seed: int | None = None, rate: int = 1_000
    ) -> None:
        self.seed = chosen_seed() if seed is None else seed
        self.random = random.Random(self.seed)
        self.folder = folder
        self.processes: list[FaultyProcess] = []
        self._acquitted = False
        self._topology = load()
        self._topology = replace(
            self._topology, topics={name: self._topology.topics[name] for name in TOPICS}
        )
        self._stage = stage(self._topology)
        self.cluster = Cluster(kafka, self._topology)
        self.cluster.create()
        received = self.cluster.prefix + TOPICS[0]
        self.flood = Flood(kafka.client(), received, self._topology.partitions, self.seed, rate)
        self.progress = GroupProgress(self.cluster, "dedup", TOPICS[0])
        self._homes: dict[tuple[Path, str], dict[str, str]] = {}

    def __enter__(self) -> Self:
        print(f"seed {self.seed}")
        self.flood.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.flood.__exit__()
        for process in self.processes:
            process.kill()
            if not self._acquitted:
                print(process.lines)
        self.progress.close()

    def start(self, instance: str = "0", home: str = "data", **environ: str) -> FaultyProcess:
        """One more process of the stage, with its state under `folder / home`."""
        settings = {**self.cluster.environ(self.folder / home, instance), **environ}
        self._homes[self.folder / home, instance] = settings
        log = self.folder / f"{instance}-{len(self.processes)}.log"
        self.processes.append(FaultyProcess("dedup_stage", log, settings))
        return self.processes[-1]

    def wipe(self, home: str = "data", instance: str = "*") -> None:
        """Take the state of stopped processes away."""
        for state in (self.folder / home / "state/dedup").glob(instance):
            shutil.rmtree(state)

    def await_recovery(self, after: str, seconds: float = RECOVERY_SECONDS) -> float:
        """Call it when a fault has ended: waits until all partitions move on, and prints it."""
        took = self.progress.await_recovery(seconds)
        print(f"{after}: every partition moved on after {took:.1f} s")
        return took

    def verdict(self, settle_seconds: float = RECOVERY_SECONDS) -> list[Violation]:
        """End the flood, let the stage work off the rest, stop it, and examine all it left.

        A transaction left open by a killed process has `settle_seconds` to be ended.
        """
        times = self.flood.finish()
        left = self.progress.await_end()
        found = [Violation("unfinished", f"partition {p}", n) for p, n in left.items()]
        found += self._stop()
        found += no_open_transaction(self.cluster, TOPICS, settle_seconds)
        if not self.progress.stable():
            found.append(Violation("open_transaction", "the group's offsets", 1))
        if any(violation.what == "open_transaction" for violation in found):
            return self._told(found)  # nobody can read what stands behind it
        changelog = self.cluster.read("dedup.seen.changelog")
        events = [(m.value() or b"")[FINGERPRINT] for m in self.cluster.read("events")]
        found += once_each(times, events, "events")
        told = {key for m in changelog for key, _ in changes_in(m.key() or b"", m.value())}
        found += once_each(times, list(told), "changelog")
        arrived = [m.value() or b"" for m in self.cluster.read("events.received")]
        found += duplicates_counted(times, arrived, self.cluster.read("duplicates"))
        with TemporaryDirectory() as scratch:
            stores = self._copies(Path(scratch))
        found += stores_as_changelogs(self._stage.stores[0], stores, changelog)
        found += [Violation("dead_letter", "dlq", n) for n in [len(self.cluster.read("dlq"))] if n]
        self._acquitted = not found
        return self._told(found)

    def _told(self, found: list[Violation]) -> list[Violation]:
        keys, sent = len(self.flood.times), self.flood.times.total()
        print(f"seed {self.seed}: {keys} keys in {sent} deliveries; violations: {found}")
        return found

    def _stop(self) -> list[Violation]:
        """SIGTERM to what lives; a frozen process is woken up before."""
        alive = [process for process in self.processes if process.alive]
        for process in alive:
            process.signal(signal.SIGCONT)
        codes = {process.pid: process.stop() for process in alive}
        return [
            Violation("unclean_stop", f"process {pid}", code) for pid, code in codes.items() if code
        ]

    def _copies(self, scratch: Path) -> list[StoreCopy]:
        settings = []
        for number, ((home, _), environ) in enumerate(self._homes.items()):
            if (home / "state").exists():
                copied = scratch / str(number)
                shutil.copytree(home / "state", copied / "state")
                settings.append(load_settings({**environ, "TIDEGATE_DATA_DIR": str(copied)}))
        spec, admin = self._stage.stores[0], self.cluster.admin
        changelog = Topics(admin, self.cluster.prefix).changelogs(self._stage)[spec.changelog]
        return copies(settings, "dedup", spec, changelog, self._topology.partitions)
