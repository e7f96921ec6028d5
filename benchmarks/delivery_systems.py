"""The senders of webhooks that bench_delivery_beside measures: ours, and a task of Celery."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from bench_delivery import EGRESS, TOPOLOGY, World, Writes
from contenders.environments import python_with
from harness import create_topics
from jobs_run import family_seconds
from jobs_servers import asked
from outside import HERE, stage
from peers.celery.peer import LATE
from peers.contract import Part, Peer, Place, Settings
from peers.running import Running, running
from peers.servers import of, redis

from streams.broker.embedded import EmbeddedKafka

Process = subprocess.Popen[bytes]
CELERY = {
    "Celery, threads": {"worker.pool": "threads", "worker.concurrency": "32"},
    "Celery, gevent": {"worker.pool": "gevent", "worker.concurrency": "32"},
}
"""The pools that suit waiting for others. Under gevent kombu looks for the tasks of a killed worker
at a start alone, when they are not old enough yet: they are stuck until the next (celery#4976)."""
SWEPT = {
    "worker.concurrency": ("16", "100", "1000"),
    "worker.prefetch-multiplier": ("1", "16"),
    "workers": ("2",),
}
RESTART_SECONDS = 1.0


class System(Protocol):
    """A sender of webhooks that runs."""

    @property
    def world(self) -> Writes: ...

    @property
    def process(self) -> Process: ...

    def spent(self) -> float:
        """Processor time of the sender and its broker so far."""
        ...

    def kill(self) -> None:
        """End the sender with SIGKILL, and start it again after a second."""
        ...

    def held(self) -> int:
        """How many messages the broker still has for a sender."""
        ...


class Tidegate:
    """Our delivery process, and Kafka."""

    def __init__(self, broker: EmbeddedKafka, folder: Path, stack: ExitStack) -> None:
        self.world = World(broker.bootstrap)
        self._broker, self._folder, self._stack = broker, folder, stack
        self._start()

    def spent(self) -> float:
        return sum(family_seconds(pid) for pid in (self._broker.pid, self.process.pid) if pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        time.sleep(RESTART_SECONDS)
        self._start()

    def held(self) -> int:
        return 0  # the receiver gets what the stage still has

    def _start(self) -> None:
        started = stage("delivery", self._broker.bootstrap, self._folder, env=EGRESS)
        self.process = self._stack.enter_context(started)


class Celery:
    """Workers of Celery, Redis, and the client that enqueues."""

    def __init__(self, system: Running, client: Process) -> None:
        self.world = CeleryWorld(client, self._workers)
        self._system = system

    @property
    def process(self) -> Process:
        return self._workers()[0]

    def spent(self) -> float:
        return sum(self._system.spent().values())

    def kill(self) -> None:
        parts = self._system.of("worker")
        for part in parts:
            self._system.kill(part)
        time.sleep(RESTART_SECONDS)
        for part in parts:
            self._system.start(part)

    def held(self) -> int:
        address = self._system.of("worker")[0].env["PEERS_REDIS"]
        return asked(address, "LLEN celery") + asked(address, "HLEN unacked")

    def _workers(self) -> list[Process]:
        return [self._system.processes[part.name] for part in self._system.of("worker")]


class CeleryWorld:
    """Enqueues a task for each message, as `World` writes events."""

    def __init__(self, client: Process, workers: Callable[[], list[Process]]) -> None:
        assert client.stdin
        assert client.stdout
        self.sent: dict[str, float] = {}
        self._asks, self._answers, self._workers = client.stdin, client.stdout, workers
        self._urls: dict[str, list[str]] = defaultdict(list)

    def endpoint(self, tenant: str, id_: str, url: str) -> None:
        self._urls[tenant].append(url)

    def events(self, tenant: str, ids: list[str]) -> None:
        """The workers stand still meanwhile if there are many: the client takes a core."""
        if len(ids) > 1:
            self._signal(signal.SIGSTOP)
        for event_id in ids:
            self.sent[event_id] = time.time()
            for url in self._urls[tenant]:
                self._asks.write(f"{url} {event_id}\n".encode())
        self._asks.write(b"\n")
        self._asks.flush()
        self._answers.readline()
        if len(ids) > 1:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for worker in self._workers():
            os.killpg(worker.pid, number)


@contextmanager
def tidegate() -> Iterator[System]:
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
        EmbeddedKafka(Path(folder) / "kafka") as broker,
        ExitStack() as stack,
    ):
        create_topics(broker.bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        yield Tidegate(broker, Path(folder), stack)


@contextmanager
def celery(settings: Settings) -> Iterator[System]:
    python = str(python_with("celery", LATE.lock))
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        place = Place(Path(folder), 0, {"PYTHONPATH": str(HERE)}, settings)
        peer = Peer("Celery", parts, LATE.packages, LATE.lock, LATE.licence, LATE.keeps, settings)
        with running(peer, place) as system:
            command = [python, "-m", "peers.celery.deliveries"]
            env = {**os.environ, **place.env, **system.of("worker")[0].env}
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
            ) as client:
                yield Celery(system, client)


def parts(place: Place) -> Iterator[Part]:
    """Redis and the workers."""
    server, address = redis(place)
    yield server
    flags = [f"--{name}={value}" for name, value in of("worker.", place.settings).items()]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=CRITICAL"]
    python = str(python_with("celery", LATE.lock))
    app = [python, "-m", "celery", "--app", "peers.celery.deliveries", "worker"]
    for number in range(int(place.settings.get("workers", "1"))):
        named = f"--hostname=worker{number}"
        command = [*app, named, *quiet, *flags]
        yield Part(f"worker{number}", "worker", command, lambda: True, {"PEERS_REDIS": address})
