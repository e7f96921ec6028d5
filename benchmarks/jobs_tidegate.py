"""Tidegate as a system of bench_jobs: `tidegate dev` as users start it, webhooks at its ingress."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import orjson
from dedup_speed import Process, running
from http_load import Answers, closed, open_loop
from jobs_run import Load, Meter, Run, Seconds, Stalled, Starts, process_seconds
from outside import APPLICATION_PATH, OVERLAY, scan, until
from prometheus_client.parser import text_string_to_metric_families
from sources import create_sources
from webhook_requests import made

from streams.dev_state import read_state
from streams.serde.codec import JOB
from streams.topology.load import load as load_topology
from streams.topology.model import Topology

CONNECTIONS = 32
EVENT_TYPES = {"noop": "plain.made", "effect": "effect.made"}
ADMIN_TOKEN = "opens the benchmark's operator API"
_START_SECONDS = 60.0
_SETTLE_SECONDS = 20.0


@contextmanager
def tidegate(
    folder: Path, settings: Mapping[str, str], *flags: str, env: Mapping[str, str] | None = None
) -> Iterator[Tidegate]:
    """`tidegate dev` with its own broker and sources that take webhooks; `flags` go to it.

    `env` are further variables of its processes.

    `settings` are the number of `partitions`, and `slots`.
    """
    overlay = folder / "topology.yaml"
    overlay.write_text(f"partitions: {settings['partitions']}\n{OVERLAY.read_text()}")
    starts, log, data = Starts(folder / "starts"), folder / "dev.log", folder / "data"
    command = [
        sys.executable,
        "-m",
        "streams.cli",
        "dev",
        "--port",
        "0",
        "--data-dir",
        str(data),
        "--app",
        "bench_app:app",
        "--topology",
        str(overlay),
        *flags,
    ]
    own = {
        "PYTHONPATH": APPLICATION_PATH,
        "BENCH_STARTS": str(starts.path),
        "TIDEGATE_ADMIN_TOKEN": ADMIN_TOKEN,
        "TIDEGATE_LOG_LEVEL": "warning",
        "TIDEGATE_SLOTS": settings["slots"],
    }
    with running(command, log, {**own, **(env or {})}) as dev:
        until(lambda: "tidegate ready " in log.read_text(), dev, "ready", _START_SECONDS)
        pipeline = Tidegate(dev, data, load_topology(overlay), starts)
        asyncio.run(create_sources(pipeline.url, ADMIN_TOKEN))
        yield pipeline


class Tidegate:
    """A running pipeline, by what it tells of its processes in dev.json."""

    def __init__(self, dev: Process, data: Path, topology: Topology, starts: Starts) -> None:
        self._topology = topology
        self._dev = dev
        self._data = data
        self._starts = starts
        state = read_state(data)
        self.bootstrap: str = state["bootstrap"]
        self.url: str = state["url"]
        self.port: int = next(p["port"] for p in state["processes"] if p["stage"] == "ingress")

    def pids(self) -> dict[str, list[int]]:
        """The processes of each component."""
        state = read_state(self._data)
        pids = {"dev": [self._dev.pid], "broker": [state["broker_pid"]]}
        for process in state["processes"]:
            pids.setdefault(process["stage"], []).append(process["pid"])
        return pids

    def spent(self) -> Seconds:
        return {name: sum(map(process_seconds, pids)) for name, pids in self.pids().items()}

    def renew(self, stage: str) -> None:
        """Kill the one process of a stage, and return when the next one is there."""
        (old,) = self.pids()[stage]
        os.kill(old, signal.SIGKILL)
        until(lambda: self.pids()[stage] != [old], self._dev, f"a new {stage}", _START_SECONDS)
        asyncio.run(create_sources(self.url, ADMIN_TOKEN))

    def counted(self, metric: str) -> float:
        """The sum of a counter over all processes."""
        with urlopen(f"{self.url}/metrics", timeout=10) as page:
            families = text_string_to_metric_families(page.read().decode())
        return sum(s.value for family in families for s in family.samples if s.name == metric)

    def starts(self) -> dict[str, list[float]]:
        """The moments at which the handlers of jobs started."""
        return self._starts.read()

    def await_starts(self, jobs: Set[str], patience: float = 30.0) -> None:
        """Return once the handlers of these jobs have started.

        Raises:
            Stalled: one has not.
        """
        deadline = time.monotonic() + patience
        while left := jobs - self._starts.read().keys():
            self._alive()
            if time.monotonic() > deadline:
                raise Stalled(f"{len(left)} handlers have not started within {patience:.0f} s")
            time.sleep(0.05)

    def run(self, load: Load) -> Run:
        requests = made(load.count, event_type=EVENT_TYPES[load.kind])
        self._starts.clear()
        meter, began = Meter(self.spent()), time.time()
        answers = sent(self.port, requests, load)
        self._starts.await_lines(load.count, load.patience, self._alive)
        spent, others = meter.read(self.spent(), answers.spent)
        answered = taken(answers)
        ended, unsettled = self._settled(answered)
        return Run(began, ended, answered, self._starts.read(), unsettled, spent, others)

    def _alive(self) -> None:
        if self._dev.poll() is not None:
            raise Stalled(f"tidegate dev ended with exit code {self._dev.returncode}")

    def _settled(self, answered: dict[str, float]) -> tuple[float, int]:
        """When the last job ended, and how many did not succeed in their first attempt."""
        expected = Counter[tuple[str, str, int]]((job_id, "succeeded", 1) for job_id in answered)
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            newest = {m.key(): m for m in scan(self.bootstrap, self._topology, "jobs")}
            jobs = [(JOB.decode(m.value()), m.timestamp()[1] / 1000) for m in newest.values()]
            ours = [(job, at) for job, at in jobs if job.job_id in answered]
            found = Counter[tuple[str, str, int]]((j.job_id, j.status, j.attempts) for j, _ in ours)
            wrong = sum((expected - found).values())
            if not wrong or time.monotonic() > deadline:
                return max((at for _, at in ours), default=time.time()), wrong
            time.sleep(0.5)


def sent(port: int, requests: list[bytes], load: Load) -> Answers:
    """Send webhooks to a port, as a load says."""
    if load.rate:
        return open_loop(port, requests, CONNECTIONS, load.rate)
    return closed(port, requests, CONNECTIONS, load.patience)


def taken(answers: Answers) -> dict[str, float]:
    """The moment of each job's answer.

    Raises:
        Stalled: an event was not taken.
    """
    if set(answers.statuses) != {202}:
        raise Stalled(f"webhooks were answered {dict(answers.statuses)}")
    return {orjson.loads(body)["job_id"]: at for at, body in answers.bodies}
