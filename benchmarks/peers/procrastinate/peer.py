"""Procrastinate's row: jobs are rows of PostgreSQL, which wakes its workers.

Under kills no job is lost: the periodic task of the documentation runs the jobs of a worker without
a heartbeat for 15 s again. Their effects may be doubled: a job is one call without steps, so what
was between its call and the record of its end is called again. A worker that loses PostgreSQL ends,
and its supervisor starts it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contenders.environments import python_with

from peers.contract import Part, Peer, Place
from peers.servers import listening, postgres, postgres_version, run

LOCK = Path(__file__).with_name("requirements.lock")
_APP = "--app=peers.procrastinate.tasks.app"


def parts(place: Place) -> Iterator[Part]:
    """PostgreSQL, the workers, one front."""
    python = str(python_with("procrastinate", LOCK))
    server, address = postgres(place)
    settings = place.settings
    env = {
        "PEERS_POSTGRES": address,
        "PEERS_PROCRASTINATE_STALLED": settings["stalled"],
        "PEERS_PROCRASTINATE_CONNECTIONS": settings["worker.connections"],
    }
    yield server
    run([python, "-m", "procrastinate", _APP, "schema", "--apply"], place, env)
    worker = [python, "-m", "peers.procrastinate.worker"]
    flags = [settings["worker.concurrency"], settings["worker.delete"]]
    for number in range(int(settings["workers"])):
        yield Part(f"worker-{number}", "worker", [*worker, *flags], lambda: True, env)
    front = [python, "-m", "peers.procrastinate.front", str(place.port)]
    env = {**env, "PEERS_PROCRASTINATE_CONNECTIONS": settings["front.connections"]}
    yield Part("front", "front", front, listening(place.port), env)


PEER = Peer(
    "Procrastinate",
    parts,
    packages=("procrastinate", "psycopg", "aiohttp"),
    lock=LOCK,
    server=postgres_version,
    licence="MIT",
    keeps="SIGKILL of PostgreSQL, not a loss of power (fsync=off)",
    settings={
        "stalled": "15",
        "workers": "1",
        "worker.concurrency": "8",
        "worker.connections": "4",
        "worker.delete": "never",
        "front.connections": "4",
    },
    swept={
        "workers": ("2",),
        "worker.concurrency": ("4", "20"),
        "worker.connections": ("8",),
        "worker.delete": ("successful",),
        "front.connections": ("8", "16"),
    },
    lacks={
        "waits": "a job cannot wait for an event: a team keeps a table, and a second job",
        "fan": "a job cannot wait for others: a team counts them in a table",
    },
)
