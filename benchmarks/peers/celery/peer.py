"""Celery's rows: tasks acknowledged before they run, and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from contenders.environments import python_with

from peers.contract import Part, Peer, Place
from peers.servers import listening, of, redis, redis_version

LOCK = Path(__file__).with_name("requirements.lock")


def parts(place: Place) -> Iterator[Part]:
    """Redis, one worker, one front."""
    python = str(python_with("celery", LOCK))
    server, address = redis(place)
    settings = place.settings
    env = {
        "PEERS_REDIS": address,
        "PEERS_CELERY_ACKS": settings["acks"],
        "PEERS_CELERY_VISIBILITY": settings["visibility"],
    }
    yield server
    flags = [f"--{name}={value}" for name, value in of("worker.", settings).items()]
    started = [python, "-m", "celery", "--app", "peers.celery.tasks", "worker"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"]
    yield Part("worker", "worker", [*started, *quiet, *flags], lambda: True, env)
    front = [python, "-m", "peers.celery.front", str(place.port)]
    yield Part("front", "front", front, listening(place.port), env)


_NO_WAITS = "a task cannot wait for an event: a team keeps a table of its own, and a second task"
LATE = Peer(
    "Celery, late acks",
    parts,
    packages=("celery", "redis", "aiohttp"),
    lock=LOCK,
    server=redis_version,
    licence="BSD",
    keeps="SIGKILL of Redis, not a loss of power (append-only file without fsync)",
    settings={
        "acks": "late",
        "visibility": "60",
        "worker.pool": "threads",
        "worker.concurrency": "8",
        "worker.prefetch-multiplier": "4",
    },
    swept={
        "worker.pool": ("prefork", "gevent"),
        "worker.concurrency": ("2", "4", "20"),
        "worker.prefetch-multiplier": ("1", "32"),
        "redis.appendonly": ("no",),
    },
    lacks={"waits": _NO_WAITS},
)
EARLY = replace(LATE, name="Celery, early acks", settings={**LATE.settings, "acks": "early"})
