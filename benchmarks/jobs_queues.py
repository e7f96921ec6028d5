"""Celery and Procrastinate as systems of bench_jobs: a server, workers, a sender of jobs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from contenders import environments
from dedup_speed import Process, running
from jobs_run import Load, Meter, Run, Seconds, Stalled, Starts, System, family_seconds
from jobs_servers import asked, listens, postgres, redis
from jobs_tidegate import CONNECTIONS, EVENT_TYPES, sent, taken
from outside import HERE, until
from webhook_requests import made

from streams.broker.ports import pick_free

_POLL_SECONDS = 0.02
Settings = Mapping[str, str]
"""Those of the server begin with `server.`."""


@dataclass(frozen=True)
class Queue:
    """A server, workers, and a program that sends jobs and waits for their end."""

    server: Process
    workers: Sequence[Process]
    send: Sequence[str]
    env: Mapping[str, str]
    starts: Starts

    def spent(self) -> Seconds:
        return {
            "server": family_seconds(self.server.pid),
            "worker": sum(family_seconds(worker.pid) for worker in self.workers),
        }

    def run(self, load: Load) -> Run:
        self.starts.clear()
        meter = Meter(self.spent())
        told = json.loads(self._sent(load))
        spent, others = meter.read(self.spent(), float(told.pop("spent")))
        return Run(**told, starts=self.starts.read(), spent=spent, others=others)

    def _sent(self, load: Load) -> str:
        words = load.kind, load.count, load.rate, load.patience, CONNECTIONS
        command = [*self.send, *map(str, words)]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Stalled(f"sending failed: {done.stderr.strip()[-600:]}")
        return done.stdout


@dataclass(frozen=True)
class Fronted:
    """A queue behind an HTTP server that takes webhooks."""

    queue: Queue
    fronts: Sequence[Process]
    port: int

    def spent(self) -> Seconds:
        front = sum(family_seconds(process.pid) for process in self.fronts)
        return {**self.queue.spent(), "front": front}

    def run(self, load: Load) -> Run:
        self.queue.starts.clear()
        requests = made(load.count, event_type=EVENT_TYPES[load.kind])
        meter, began = Meter(self.spent()), time.time()
        answers = sent(self.port, requests, load)
        left = self._drained(time.monotonic() + load.patience)
        ended = time.time()
        self.queue.starts.await_lines(load.count, load.patience, self._alive)
        spent, others = meter.read(self.spent(), answers.spent)
        return Run(began, ended, taken(answers), self.queue.starts.read(), left, spent, others)

    def _drained(self, deadline: float) -> int:
        """How many jobs are left once none is, or at the deadline: see `celery_load`."""
        address = self.queue.env["BENCH_SERVER"]
        while left := asked(address, "LLEN celery") + asked(address, "HLEN unacked"):
            self._alive()
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
        return left

    def _alive(self) -> None:
        if any(process.poll() is not None for process in self.fronts):
            raise Stalled("a process of the front ended")


@contextmanager
def celery_behind_a_front(folder: Path, settings: Settings) -> Iterator[System]:
    """Celery on Redis behind an aiohttp program that verifies, drops redeliveries and enqueues."""
    python, port = str(environments.python("jobs")), pick_free()
    with celery(folder, settings) as queue, ExitStack() as stack:
        fronts = [
            stack.enter_context(
                running(
                    [python, "-m", "contenders.celery_front", str(port)],
                    folder / f"front-{number}.log",
                    queue.env,
                )
            )
            for number in range(int(settings["fronts"]))
        ]
        until(lambda: listens(port), fronts[0], "the front listens")
        yield Fronted(queue, fronts, port)


@contextmanager
def celery(folder: Path, settings: Settings) -> Iterator[Queue]:
    """Celery on Redis; settings of `worker.` are flags of its worker."""
    python, starts = str(environments.python("jobs")), Starts(folder / "starts")
    flags = [f"--{name}={value}" for name, value in _of("worker.", settings).items()]
    worker = [
        python,
        "-m",
        "celery",
        "--app",
        "contenders.celery_app",
        "worker",
        "--hostname=%n@bench",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
        "--loglevel=WARNING",
        *flags,
    ]
    with redis(folder, _of("server.", settings)) as (server, address):
        env = _environment(starts, address)
        with _workers(worker, folder, env, int(settings["processes"])) as workers:
            send = [python, "-m", "contenders.celery_load"]
            yield Queue(server, workers, send, env, starts)


@contextmanager
def procrastinate(folder: Path, settings: Settings) -> Iterator[System]:
    """Procrastinate on PostgreSQL."""
    python, starts = str(environments.python("jobs")), Starts(folder / "starts")
    worker = [python, "-m", "contenders.procrastinate_app"]
    worker += [settings["concurrency"], settings["polling"]]
    with postgres(folder, _of("server.", settings)) as (server, address):
        env = _environment(starts, address)
        send = [python, "-m", "contenders.procrastinate_load"]
        subprocess.run([*send, "noop", "0", "0", "0", "0"], env=env, check=True)
        with _workers(worker, folder, env, int(settings["processes"])) as workers:
            yield Queue(server, workers, send, env, starts)


@contextmanager
def _workers(
    command: Sequence[str], folder: Path, env: Mapping[str, str], count: int
) -> Iterator[list[Process]]:
    """So many processes; `%n` in the command becomes the number of each."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                running(
                    [word.replace("%n", str(number)) for word in command],
                    folder / f"worker-{number}.log",
                    env,
                )
            )
            for number in range(count)
        ]


def _environment(starts: Starts, address: str) -> dict[str, str]:
    """What workers and senders run with: this folder, where `contenders` is a package."""
    own = {"BENCH_STARTS": str(starts.path), "BENCH_SERVER": address, "PYTHONPATH": str(HERE)}
    return {**os.environ, **own}


def _of(prefix: str, settings: Settings) -> dict[str, str]:
    """The settings that begin so, without that."""
    return {
        name.removeprefix(prefix): value
        for name, value in settings.items()
        if name.startswith(prefix)
    }
