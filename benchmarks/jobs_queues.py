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
from jobs_run import Load, Run, Seconds, Stalled, Starts, System, difference, family_seconds
from jobs_servers import postgres, redis
from jobs_tidegate import CONNECTIONS
from outside import HERE

Settings = Mapping[str, str]
_SERVER = "server."
"""Settings of the server begin with this."""


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
        before = self.spent()
        told = json.loads(self._sent(load))
        spent = {**difference(before, self.spent()), "load": float(told.pop("spent"))}
        return Run(**told, starts=self.starts.read(), spent=spent)

    def _sent(self, load: Load) -> str:
        words = load.kind, load.count, load.rate, load.patience, CONNECTIONS
        command = [*self.send, *map(str, words)]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Stalled(f"sending failed: {done.stderr.strip()[-600:]}")
        return done.stdout


@contextmanager
def celery(folder: Path, settings: Settings) -> Iterator[System]:
    """Celery on Redis."""
    python, starts = environments.python("jobs"), Starts(folder / "starts")
    worker = [
        str(python), "-m", "celery", "--app", "contenders.celery_app", "worker",
        "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING",
        *_flags(settings),
    ]  # fmt: skip
    with redis(folder, _of_server(settings)) as (server, address):
        env = _environment(starts, address)
        with running(worker, folder / "worker.log", env) as process:
            send = [str(python), "-m", "contenders.celery_load"]
            yield Queue(server, [process], send, env, starts)


@contextmanager
def procrastinate(folder: Path, settings: Settings) -> Iterator[System]:
    """Procrastinate on PostgreSQL."""
    python, starts = str(environments.python("jobs")), Starts(folder / "starts")
    with postgres(folder, _of_server(settings)) as (server, address), ExitStack() as workers:
        env = _environment(starts, address)
        send = [python, "-m", "contenders.procrastinate_load"]
        subprocess.run([*send, "noop", "0", "0", "0", "0"], env=env, check=True)
        worker = [python, "-m", "contenders.procrastinate_app"]
        worker += [settings["concurrency"], settings["polling"]]
        processes = [
            workers.enter_context(running(worker, folder / f"worker-{number}.log", env))
            for number in range(int(settings["processes"]))
        ]
        yield Queue(server, processes, send, env, starts)


def _environment(starts: Starts, address: str) -> dict[str, str]:
    """What workers and senders run with: this folder, where `contenders` is a package."""
    own = {"BENCH_STARTS": str(starts.path), "BENCH_SERVER": address, "PYTHONPATH": str(HERE)}
    return {**os.environ, **own}


def _of_server(settings: Settings) -> dict[str, str]:
    return {
        name.removeprefix(_SERVER): value
        for name, value in settings.items()
        if name.startswith(_SERVER)
    }


def _flags(settings: Settings) -> list[str]:
    return [f"--{name}={value}" for name, value in settings.items() if not name.startswith(_SERVER)]
