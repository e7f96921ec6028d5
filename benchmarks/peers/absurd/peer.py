"""Absurd's row: durable tasks whose steps are rows of PostgreSQL, which its workers poll.

Under kills no task is lost: a task runs again once its claim of 15 s expires. An effect may be
doubled: a step that was between its call and its checkpoint is called again. A worker that loses
PostgreSQL ends, and its supervisor starts it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contenders.environments import python_with

from peers.contract import Part, Peer, Place, of_tenant
from peers.servers import listening, postgres, postgres_version, run

LOCK = Path(__file__).with_name("requirements.lock")


def parts(place: Place) -> Iterator[Part]:
    """PostgreSQL with the schema that absurdctl brings, the workers, one front."""
    python = python_with("absurd", LOCK)
    server, address = postgres(place)
    settings = place.settings
    env = {"PEERS_POSTGRES": address, "PEERS_ABSURD_CONNECTIONS": settings["front.connections"]}
    yield server
    absurdctl = str(python.with_name("absurdctl"))
    run([absurdctl, "init", "-d", address], place, env)
    for queue in ("default", "children"):
        run([absurdctl, "create-queue", "-d", address, queue], place, env)
    names = ("concurrency", "batch", "claim", "asking", "poll", "children_poll")
    worker = [str(python), "-m", "peers.absurd.worker"]
    worker += [settings[f"worker.{name}"] for name in names]
    for number in range(int(settings["workers"])):
        yield Part(f"worker-{number}", "worker", worker, lambda: True, env)
    front = [str(python), "-m", "peers.absurd.front", str(place.port)]
    yield Part("front", "front", front, listening(place.port), env)


PEER = Peer(
    "Absurd",
    parts,
    packages=("absurd-sdk", "absurdctl", "psycopg", "aiohttp"),
    lock=LOCK,
    named=of_tenant,
    server=postgres_version,
    licence="Apache-2.0",
    keeps="SIGKILL of PostgreSQL, not a loss of power (fsync=off)",
    settings={
        "workers": "2",
        "worker.concurrency": "10",
        "worker.batch": "10",
        "worker.claim": "15",
        "worker.asking": "4",
        "worker.poll": "0.05",
        "worker.children_poll": "0.25",
        "front.connections": "8",
    },
    swept={
        "workers": ("1", "3"),
        "worker.concurrency": ("4", "20"),
        "worker.asking": ("1", "8"),
        "worker.poll": ("0.02", "0.25"),
        "worker.children_poll": ("0.05",),
        "front.connections": ("4", "16"),
    },
)
