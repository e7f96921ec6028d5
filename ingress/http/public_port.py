"""One port for a whole machine: the ingress answers webhooks and passes other requests on.

`tidegate dev` listens on the port and hands the listener down, as systemd does with a socket unit.
Connections that arrive while an ingress restarts wait in the kernel's queue. Without a public port
an ingress listens on its own port only.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from streams.errors import ConfigError

PUBLIC_FD, PUBLIC_REST = "TIDEGATE_PUBLIC_FD", "TIDEGATE_PUBLIC_REST"
"""Environment variables: the listener's descriptor, and the URL of the other server."""

BACKLOG = 1024
"""The most connections that wait to be accepted."""


@dataclass(frozen=True, slots=True)
class PublicPort:
    """A listener, and the URL (without a path) of the server for all but webhooks."""

    listener: socket.socket
    rest: str


def handed_down(listener: socket.socket, rest: str) -> Mapping[str, str]:
    """The environment variables that tell a child process about its inherited listener."""
    return {PUBLIC_FD: str(listener.fileno()), PUBLIC_REST: rest}


def inherited() -> PublicPort | None:
    """The port that this process's parent handed down, if it did.

    Raises:
        ConfigError: the variable names no open socket.
    """
    named, rest = os.environ.pop(PUBLIC_FD, None), os.environ.pop(PUBLIC_REST, "")
    if named is None:
        return None
    try:
        listener = socket.socket(fileno=int(named))
        listener.set_inheritable(False)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{PUBLIC_FD}={named!r} is no open socket: unset it") from error
    return PublicPort(listener, rest)
