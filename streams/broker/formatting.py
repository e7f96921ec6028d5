"""Kafka's format command: gives an empty directory the identity of a node."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from streams.broker import diagnosis
from streams.broker.datadir import DataDir
from streams.broker.jars import cache_dir
from streams.broker.java import environment, format_command
from streams.broker.member import Member
from streams.errors import BrokerError

_FORMAT_SECONDS = 180.0


def format_data(
    directory: DataDir, jars: Sequence[Path], properties: Path, lock_fd: int, member: Member
) -> None:
    """Format the data directory; `properties` are the server's, `lock_fd` stays open meanwhile.

    Raises:
        BrokerError: the command failed, and why; or it was not done within a minute.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own Java
            format_command(jars, properties, member.cluster_id),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=cache_dir(),
            timeout=_FORMAT_SECONDS,
            check=False,
            pass_fds=(lock_fd,),
        )
    except subprocess.TimeoutExpired:
        raise BrokerError(
            f"Kafka has not formatted {directory.data} within {_FORMAT_SECONDS:g} s; free the "
            "machine's processors and its disk of other work, then start it again"
        ) from None
    if done.returncode != 0:
        log = done.stdout.decode(errors="replace")
        attempt = diagnosis.Attempt(directory.root, member.ports.clients, log)
        raise diagnosis.explain(attempt, f"Kafka cannot format {directory.data}")
