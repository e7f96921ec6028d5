"""Restate's row: one server, one service endpoint, one front.

The server keeps its log in a store of its own, so it is the store. After SIGKILL of the worker or
the server a job whose effect is there, and whose result the server has not yet recorded, has its
effect again: `ctx.run` runs at least once. Webhooks wait meanwhile until their delivery times out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.request import Request, urlopen

from contenders.environments import node, python_with

from peers.contract import Part, Peer, Place, of_tenant
from peers.servers import listening, of
from streams.broker.ports import pick_free

HERE = Path(__file__).parent
LOCK = HERE / "requirements.lock"
SERVER = "@restatedev/restate-server-linux-x64"
APP = "peers.restate.jobs:app"
_STREAMS = 2**31 - 1
_HYPERCORN = f"""\
h2_max_concurrent_streams = {_STREAMS}
keep_alive_max_requests = {_STREAMS}
keep_alive_timeout = {_STREAMS}
"""
"""As the SDK's documentation has it for production."""


def parts(place: Place) -> Iterator[Part]:
    """The server, the worker that it calls over HTTP/2, the front."""
    python = str(python_with("restate", LOCK))
    server = node("restate-server", HERE) / SERVER / "bin" / "restate-server"
    ingress, admin, fabric, worker = (pick_free() for _ in range(4))
    settings = place.settings
    env = {
        "PEERS_RESTATE_INGRESS": f"http://127.0.0.1:{ingress}",
        "PEERS_RESTATE_ADMIN": f"http://127.0.0.1:{admin}",
        "PEERS_RESTATE_KEPT_HOURS": settings["kept_hours"],
        "PEERS_RESTATE_PATIENCE": settings["patience"],
    }
    options = {
        "base-dir": str(place.folder / "restate"),
        "bind-ip": "127.0.0.1",
        "bind-port": str(fabric),
        "ingress.bind-port": str(ingress),
        "admin.bind-port": str(admin),
        "listen-mode": "tcp",
        "log-filter": "warn",
        "disable-telemetry": "true",
        **of("server.", settings),
    }
    ready = _answer(
        f"http://127.0.0.1:{ingress}/restate/health", f"http://127.0.0.1:{admin}/health"
    )
    yield Part("restate", "store", [str(server), "--no-logo"], ready, _named(options))
    command = [python, "-m", *_served(place, worker)]
    yield Part("worker", "worker", command, listening(worker), env)
    _register(admin, worker)
    front = [python, "-m", "peers.restate.front", str(place.port)]
    yield Part("front", "front", front, listening(place.port), env)


def _served(place: Place, port: int) -> list[str]:
    """The module that serves the application, and what it is told."""
    settings = place.settings
    if settings["serving"] == "hypercorn":
        file = place.folder / "hypercorn.toml"
        file.write_text(_HYPERCORN)
        flags = [f"--config={file}", f"--bind=127.0.0.1:{port}", "--worker-class=uvloop"]
    else:
        flags = ["--interface=asgi", "--http=2", "--loop=uvloop", f"--port={port}"]
        flags += [f"--http2-max-concurrent-streams={_STREAMS}", "--host=127.0.0.1"]
    return [settings["serving"], APP, f"--workers={settings['workers']}", *flags]


def _named(options: Mapping[str, str]) -> dict[str, str]:
    """The environment that has the server's options."""
    return {
        "RESTATE_" + name.upper().replace("-", "_").replace(".", "__"): value
        for name, value in options.items()
    }


def _register(admin: int, worker: int) -> None:
    """Tell the server where the worker is."""
    body = json.dumps({"uri": f"http://127.0.0.1:{worker}"}).encode()
    url = f"http://127.0.0.1:{admin}/deployments"
    request = Request(url, body, {"Content-Type": "application/json"})
    urlopen(request, timeout=60).close()


def _answer(*urls: str) -> Callable[[], bool]:
    """What says whether all of these answer."""

    def ready() -> bool:
        try:
            for url in urls:
                urlopen(url, timeout=5).close()
        except OSError:
            return False
        return True

    return ready


PEER = Peer(
    "Restate",
    parts,
    packages=(SERVER, "restate-sdk", "granian", "aiohttp"),
    lock=LOCK,
    named=of_tenant,
    more_locks=(HERE / "package-lock.json",),
    licence="BSL (server), MIT (SDK)",
    keeps="SIGKILL of Restate, not a loss of power (its log without fsync)",
    # The local log is for a single server. The replicated one, which is the default, seals its log
    # at each start, and appends anew only after `bifrost.auto-recovery-interval`, 15 s or longer.
    # Every partition writes on its own, so that on few cores one costs least.
    settings={
        "serving": "granian",
        "workers": "1",
        "kept_hours": "0",
        "patience": "60",
        "server.default-num-partitions": "1",
        "server.bifrost.default-provider": "local",
        "server.bifrost.local.rocksdb-disable-wal-fsync": "true",
        "server.log-server.rocksdb-disable-wal-fsync": "true",
        "server.rocksdb-total-memory-size": "1GiB",
        "server.worker.invoker.concurrent-invocations-limit": "100000",
    },
    swept={
        "serving": ("hypercorn",),
        "kept_hours": ("24",),
        "patience": ("1", "10"),
        "server.worker.invoker.concurrent-invocations-limit": ("10000",),
        "server.default-num-partitions": ("2", "4", "24"),
        "server.bifrost.default-provider": ("replicated",),
    },
)
