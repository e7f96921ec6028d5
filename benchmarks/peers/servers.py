"""Redis and PostgreSQL as parts of peers.

An answered write survives SIGKILL of the server, and not a loss of power: as with Kafka, which
leaves the disk to the operating system. So Redis writes its append-only file without `fsync`, and
PostgreSQL commits to its log without it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pwd import struct_passwd
from typing import Any

from contenders.environments import Unavailable
from jobs_servers import listens, owner, program

from peers.contract import Part, Place
from streams.broker.ports import HOST, pick_free

REDIS = {"appendonly": "yes", "appendfsync": "no", "save": ""}
POSTGRES = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "shared_buffers": "256MB",
}
"""Without fsync whole pages in the log protect nothing: both are about a loss of power."""


def redis(place: Place) -> tuple[Part, str]:
    """The part, and the address for its clients."""
    command, port = program("redis-server", "apt install redis-server"), pick_free()
    options = {"port": str(port), "bind": HOST, "dir": str(place.folder), **REDIS}
    options |= of("redis.", place.settings)
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    ready = partial(_answers, port)
    return Part("redis", "store", [command, *flags], ready), f"redis://{HOST}:{port}/0"


def postgres(place: Place) -> tuple[Part, str]:
    """The part, with one empty database, and the address for its clients.

    Raises:
        Unavailable: `initdb` failed.
    """
    names = ("postgres", "initdb", "pg_isready")
    command, initdb, is_ready = (program(name, "apt install postgresql") for name in names)
    user, port, home = owner(), pick_free(), place.folder / "postgres"
    home.mkdir()
    place.folder.chmod(0o711)
    if user:
        shutil.chown(home, user.pw_uid, user.pw_gid)
    _initialized([initdb, "-D", str(home / "data"), "--username=bench", "--auth=trust"], user)
    options = {"port": str(port), "listen_addresses": HOST, "unix_socket_directories": str(home)}
    options |= POSTGRES | of("postgres.", place.settings)
    flags = [f"--{name}={value}" for name, value in options.items()]
    asked = [is_ready, "--quiet", f"--host={HOST}", f"--port={port}"]
    ready = partial(_succeeds, asked)
    part = Part("postgres", "store", [command, "-D", str(home / "data"), *flags], ready, owner=user)
    return part, f"postgresql://bench@{HOST}:{port}/postgres"


def redis_version() -> str:
    told = _told([program("redis-server", "apt install redis-server"), "--version"])
    return f"Redis {told.partition('v=')[2].split()[0]}"


def postgres_version() -> str:
    told = _told([program("postgres", "apt install postgresql"), "--version"])
    return f"PostgreSQL {told.partition(') ')[2].split()[0]}"


def run(command: Sequence[str], place: Place, env: Mapping[str, str]) -> None:
    """Run what has to be done before the next part starts, such as making tables.

    Raises:
        Unavailable: it failed.
    """
    whole = {**os.environ, **place.env, **env}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=whole)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)} failed: {done.stderr[-600:]}")


def _told(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def listening(port: int) -> partial[bool]:
    """What says whether a part takes connections."""
    return partial(listens, port)


def of(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that begin so, without that."""
    return {n.removeprefix(prefix): v for n, v in settings.items() if n.startswith(prefix)}


def _initialized(command: list[str], user: struct_passwd | None) -> None:
    account: dict[str, Any] = {}
    if user:
        account = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **account)
    if done.returncode:
        raise Unavailable(f"initdb failed: {done.stderr[-600:]}")


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _answers(port: int) -> bool:
    """Whether Redis has read its file again, and answers."""
    try:
        with socket.create_connection((HOST, port), timeout=5) as asking:
            asking.sendall(b"PING\r\n")
            return asking.recv(16).startswith(b"+PONG")
    except OSError:
        return False
