"""Tidegate as a system of bench_jobs: `tidegate dev` as users start it, webhooks at its ingress."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson
from dedup_speed import Process, running
from http_load import Answers, closed, open_loop
from jobs_run import Load, Meter, Run, Seconds, Stalled, Starts, process_seconds
from outside import APPLICATION_PATH, OVERLAY, scan, until
from prometheus_client.parser import text_string_to_metric_families
from sources import create_sources
from webhook_requests import made

from streams.serde.codec import JOB
from streams.topology.load import load as load_topology
from streams.topology.model import Topology

CONNECTIONS = 32
_EVENT_TYPES = {"noop": "plain.made", "effect": "effect.made"}
_ADMIN_TOKEN = "opens the benchmark's operator API"
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
        sys.executable, "-m", "streams.cli", "dev", "--port", "0", "--data-dir", str(data),
        "--app", "bench_app:app", "--topology", str(overlay), *flags,
    ]  # fmt: skip
    own = {
        "PYTHONPATH": APPLICATION_PATH,
        "BENCH_STARTS": str(starts.path),
        "TIDEGATE_ADMIN_TOKEN": _ADMIN_TOKEN,
        "TIDEGATE_LOG_LEVEL": "warning",
        "TIDEGATE_SLOTS": settings["slots"],
    }
    with running(command, log, {**own, **(env or {})}) as dev:
        until(lambda: "tidegate ready " in log.read_text(), dev, "ready", _START_SECONDS)
        state = json.loads((data / "dev.json").read_text())
        asyncio.run(create_sources(state["url"], _ADMIN_TOKEN))
        yield Tidegate(dev, state, load_topology(overlay), starts)


class Tidegate:
    """A running pipeline; `state` is what it tells of its processes in dev.json."""

    def __init__(
        self, dev: Process, state: dict[str, Any], topology: Topology, starts: Starts
    ) -> None:
        self._topology = topology
        self.bootstrap: str = state["bootstrap"]
        self._url: str = state["url"]
        self._dev = dev
        self._starts = starts
        self._pids = {"dev": [dev.pid], "broker": [state["broker_pid"]]}
        for process in state["processes"]:
            self._pids.setdefault(process["stage"], []).append(process["pid"])
            if process["stage"] == "ingress":
                self._port: int = process["port"]

    def spent(self) -> Seconds:
        return {name: sum(map(process_seconds, pids)) for name, pids in self._pids.items()}

    def counted(self, metric: str) -> float:
        """The sum of a counter over all processes."""
        with urlopen(f"{self._url}/metrics", timeout=10) as page:
            families = text_string_to_metric_families(page.read().decode())
        return sum(s.value for family in families for s in family.samples if s.name == metric)

    def run(self, load: Load) -> Run:
        requests = made(load.count, event_type=_EVENT_TYPES[load.kind])
        self._starts.clear()
        meter, began = Meter(self.spent()), time.time()
        answers = self._send(requests, load)
        self._starts.await_lines(load.count, load.patience, self._alive)
        spent, others = meter.read(self.spent(), answers.spent)
        answered = _taken(answers)
        ended, unsettled = self._settled(answered)
        return Run(began, ended, answered, self._starts.read(), unsettled, spent, others)

    def _send(self, requests: list[bytes], load: Load) -> Answers:
        if load.rate:
            return open_loop(self._port, requests, CONNECTIONS, load.rate)
        return closed(self._port, requests, CONNECTIONS, load.patience)

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


def _taken(answers: Answers) -> dict[str, float]:
    """The moment of each job's answer.

    Raises:
        Stalled: an event was not taken.
    """
    if set(answers.statuses) != {202}:
        raise Stalled(f"webhooks were answered {dict(answers.statuses)}")
    return {orjson.loads(body)["job_id"]: at for at, body in answers.bodies}
