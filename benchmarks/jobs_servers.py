"""Redis and PostgreSQL on a free port, with their data in a folder that goes with the block."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from contenders.environments import Unavailable
from dedup_speed import Process, running
from outside import until

from streams.broker.ports import HOST, pick_free

_UNPRIVILEGED = ("postgres", "nobody")
"""PostgreSQL refuses to run as root: the first of these users that exists runs it instead."""
_POSTGRES_FOLDERS = "/usr/lib/postgresql"
"""Where Debian keeps what it does not put on the path."""


@contextmanager
def redis(folder: Path, settings: Mapping[str, str]) -> Iterator[tuple[Process, str]]:
    """The process and its address.

    Raises:
        Unavailable: it is not installed.
    """
    server_program, port = program("redis-server", "apt install redis-server"), pick_free()
    options = {"port": str(port), "bind": HOST, "dir": str(folder), **settings}
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    with running([server_program, *flags], folder / "redis.log") as server:
        until(lambda: listens(port), server, "redis-server listens")
        yield server, f"redis://{HOST}:{port}/0"


@contextmanager
def postgres(folder: Path, settings: Mapping[str, str]) -> Iterator[tuple[Process, str]]:
    """The process and its address, with one empty database.

    Raises:
        Unavailable: it is not installed.
    """
    postgres_program, initdb = (
        program(name, "apt install postgresql") for name in ("postgres", "initdb")
    )
    user, port = owner(), pick_free()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-postgres-") as home:
        if user:
            shutil.chown(home, user.pw_uid, user.pw_gid)
        data = str(Path(home) / "data")
        log = folder / "postgres.log"
        made = [initdb, "-D", data, "--username=bench", "--auth=trust", "--no-sync"]
        with running(made, log, owner=user) as process:
            if process.wait(60):
                raise Unavailable(f"initdb failed: {log.read_text()[-600:]}")
        options = {"port": str(port), "listen_addresses": HOST, "unix_socket_directories": home}
        flags = [f"--{name}={value}" for name, value in {**options, **settings}.items()]
        with running([postgres_program, "-D", data, *flags], log, owner=user) as server:
            until(lambda: "ready to accept" in log.read_text(), server, "PostgreSQL is ready")
            yield server, f"postgresql://bench@{HOST}:{port}/postgres"


def program(name: str, remedy: str) -> str:
    """The path of an installed program, also of one that Debian keeps beside the PATH.

    Raises:
        Unavailable: it is not installed.
    """
    installed = sorted(Path(_POSTGRES_FOLDERS).glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, installed)])
    found = shutil.which(name, path=path)
    if found is None:
        raise Unavailable(f"there is no {name}: {remedy} (Debian), or put it on the PATH")
    return found


def owner() -> pwd.struct_passwd | None:
    """Who is to run PostgreSQL, if not the user of this program."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name: user for user in pwd.getpwall()}
    return next(users[name] for name in _UNPRIVILEGED if name in users)


def listens(port: int) -> bool:
    """Whether somebody takes connections on a port of this machine."""
    with socket.socket() as asking:
        return asking.connect_ex((HOST, port)) == 0


def asked(address: str, question: str) -> int:
    """Ask Redis an inline command whose answer is a number (the protocol RESP)."""
    url = urlsplit(address)
    with socket.create_connection((url.hostname or HOST, url.port or 0), timeout=10) as asking:
        asking.sendall(f"{question}\r\n".encode())
        return int(asking.makefile("rb").readline().removeprefix(b":"))
