"""What a peer is to the benchmark: processes that are started in order, and what it promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pwd import struct_passwd
from typing import Literal

from webhook_requests import TENANTS

from peers.webhooks import Webhook

Role = Literal["front", "worker", "server", "store"]
"""What a process is for: `server` decides what runs, and `store` keeps what is known (a broker or
database). One process may do both; then it is the store."""

Settings = Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """Where a peer runs: its folder, the port of its front, what its processes have in common, and
    whose webhooks come."""

    folder: Path
    port: int
    env: Mapping[str, str]
    settings: Settings
    tenants: Sequence[str] = TENANTS


@dataclass(frozen=True)
class Part:
    """One process. The benchmark kills it, and starts the same command again."""

    name: str
    role: Role
    command: Sequence[str]
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    owner: struct_passwd | None = None
    """The user that runs the part; None is the user of the benchmark."""
    unfinished: Callable[[], Mapping[str, str]] | None = None
    """Names the jobs that have not ended, each with its state, if this part is to be asked, and not
    the front."""


Parts = Callable[[Place], Iterable[Part]]
"""Gives the processes in their order: the benchmark asks for the next once one is ready, so what is
made between them (tables, topics) may stand between two of them.

It raises `Unavailable` for what is not installed."""


def event_id(webhook: Webhook) -> str:
    """The sender's own id, which most peers name the job by."""
    return webhook.event_id


def of_tenant(webhook: Webhook) -> str:
    """The same with the tenant before it."""
    return f"{webhook.tenant}:{webhook.event_id}"


@dataclass(frozen=True)
class Peer:
    """One row of the tables.

    `packages` are those whose versions are told, from the lock files. `keeps` says what an answered
    webhook survives. `lacks` tells for a work why the peer has none. `named` is what the peer calls
    the job of a webhook.
    """

    name: str
    parts: Parts
    packages: Sequence[str]
    lock: Path
    licence: str
    keeps: str
    settings: Settings = field(default_factory=dict)
    swept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    more_locks: Sequence[Path] = ()
    """Those of its servers, such as a `package-lock.json`."""
    named: Callable[[Webhook], str] = event_id
    server: Callable[[], str] | None = None
    """Tells name and version of a server that no lock file has."""
