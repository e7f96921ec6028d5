"""DBOS's rows: a library on PostgreSQL. Workers poll queues in tables, or the front runs all.

Blocking workflows were tried too: they took as long as asynchronous ones, and a fan-out longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from contenders.environments import python_with

from peers.contract import Part, Peer, Place, of_tenant
from peers.servers import listening, of, postgres, postgres_version, run

LOCK = Path(__file__).with_name("requirements.lock")


def parts(place: Place) -> Iterator[Part]:
    """PostgreSQL, its tables, the workers, one front."""
    python = python_with("dbos", LOCK)
    server, address = postgres(place)
    settings = of("dbos.", place.settings)
    env = {f"PEERS_DBOS_{name.upper()}": value for name, value in settings.items()}
    env["PEERS_POSTGRES"] = address
    yield server
    run([str(python.with_name("dbos")), "migrate", "--sys-db-url", address], place, env)
    worker = [str(python), "-m", "peers.dbos.worker"]
    for number in range(int(place.settings["workers"])):
        name = f"worker-{number}"
        yield Part(name, "worker", worker, lambda: True, {**env, "PEERS_DBOS_EXECUTOR": name})
    module = "front" if int(place.settings["workers"]) else "together"
    front = [str(python), "-m", f"peers.dbos.{module}", str(place.port)]
    yield Part(
        "front", "front", front, listening(place.port), {**env, "PEERS_DBOS_EXECUTOR": "front"}
    )


DBOS = Peer(
    "DBOS",
    parts,
    packages=("dbos", "aiohttp"),
    lock=LOCK,
    named=of_tenant,
    server=postgres_version,
    licence="MIT",
    keeps="SIGKILL of PostgreSQL, not a loss of power (`fsync=off`)",
    settings={
        "workers": "2",
        "dbos.slots": "200",
        "dbos.poll": "0.05",
        "dbos.threads": "8",
        "dbos.pool": "20",
        "dbos.client": "8",
        "dbos.result_poll": "0.1",
    },
    lacks={"most waits": "at the speed of 20,000 waits it would take half an hour"},
    swept={
        "workers": ("1",),
        "dbos.slots": ("50", "0"),
        "dbos.poll": ("0.02", "0.1"),
        "dbos.threads": ("4", "16", "32"),
        "dbos.client": ("4", "16"),
    },
)
TOGETHER = replace(
    DBOS,
    name="DBOS, in the front",
    settings={**DBOS.settings, "workers": "0"},
)
