"""Celery and Procrastinate as systems of bench_jobs: a server, workers, a sender of jobs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from contenders import environments
from dedup_speed import Process, running
from jobs_run import Load, Meter, Run, Seconds, Stalled, Starts, System, family_seconds
from jobs_servers import postgres, redis
from jobs_tidegate import CONNECTIONS
from outside import HERE

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
