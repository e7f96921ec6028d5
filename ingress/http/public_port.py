"""One port for everything of a machine: hooks are answered here, all else is passed on.

`tidegate dev` listens on it and hands the listener down, as systemd does with a socket unit: what
comes while an ingress starts again waits in the kernel's queue. Without it an ingress has its own
port alone.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from streams.errors import ConfigError

PUBLIC_FD, PUBLIC_REST = "TIDEGATE_PUBLIC_FD", "TIDEGATE_PUBLIC_REST"
"""Environment variables: the listener's descriptor, and the URL of who serves the rest."""

BACKLOG = 1024
"""Connections that wait to be accepted."""


@dataclass(frozen=True, slots=True)
class PublicPort:
    """A listener, and the URL (without a path) of the server for whatever is no hook."""

    listener: socket.socket
    rest: str


def handed_down(listener: socket.socket, rest: str) -> Mapping[str, str]:
    """What tells a child of a listener that it inherits."""
    return {PUBLIC_FD: str(listener.fileno()), PUBLIC_REST: rest}


def inherited() -> PublicPort | None:
    """What the parent of this process handed down, if it did.

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
