"""DBOS's row: a library on PostgreSQL, whose worker polls queues in tables."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from contenders.environments import Unavailable, python_with

from peers.contract import Part, Peer, Place
from peers.servers import listening, of, postgres

LOCK = Path(__file__).with_name("requirements.lock")


def parts(place: Place) -> Iterator[Part]:
    """PostgreSQL, its tables, one worker, one front."""
    python = python_with("dbos", LOCK)
    server, address = postgres(place)
    settings = of("dbos.", place.settings)
    env = {f"PEERS_DBOS_{name.upper()}": value for name, value in settings.items()}
    env["PEERS_POSTGRES"] = address
    yield server
    _migrate([str(python.with_name("dbos")), "migrate", "--sys-db-url", address])
    worker = [str(python), "-m", "peers.dbos.worker"]
    yield Part("worker", "worker", worker, lambda: True, env)
    front = [str(python), "-m", "peers.dbos.front", str(place.port)]
    yield Part("front", "front", front, listening(place.port), env)


def _migrate(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"dbos migrate failed: {(done.stderr or done.stdout)[-600:]}")


DBOS = Peer(
    "DBOS",
    parts,
    packages=("dbos", "aiohttp"),
    lock=LOCK,
    licence="MIT",
    keeps="SIGKILL of PostgreSQL, not a loss of power (`fsync=off`)",
    settings={
        "dbos.slots": "200",
        "dbos.poll": "0.05",
        "dbos.threads": "16",
        "dbos.pool": "20",
        "dbos.client": "8",
        "dbos.result_poll": "0.1",
    },
    swept={
        "dbos.slots": ("50", "0"),
        "dbos.poll": ("0.02", "0.1"),
        "dbos.threads": ("4", "8", "32"),
        "dbos.client": ("4", "16"),
    },
)
