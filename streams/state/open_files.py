"""How many files each database may hold open, within the process's limit on descriptors.

A database that finds no descriptor can neither read nor write, so all of them together must stay
below the limit, with room for the clients' connections.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

import structlog

from streams.errors import ConfigError

log = structlog.get_logger(__name__)

MOST = 512
"""More open files make no lookup faster: those of a store of some ten GB."""
LEAST = 32
"""Fewer make each lookup open and close files."""
_BESIDE = 12
"""Descriptors of a database beside its tables: directory, lock, manifest, logs, a compaction's."""
_RESERVED = 256
"""For everything else: connections to the brokers, probes, libraries."""


@dataclass(frozen=True)
class OpenFiles:
    """The descriptors of a process and how they are shared out; `each` is a database's limit."""

    limit: int
    each: int

    def refuse_more(self, databases: int) -> None:
        """Raises ConfigError where so many databases cannot be open at once."""
        needed = needed_for(databases, LEAST)
        if needed > self.limit:
            raise ConfigError(
                f"{databases} databases need {needed} open files, and the process may open "
                f"{self.limit}: {_remedy(needed)}"
            )


def share_out(databases: int) -> OpenFiles:
    """Raise the process's limit as far as it may and needs, and share it among databases.

    Where it does not suffice for all of them a warning names the remedy: the process may yet get
    a share of the partitions for which it does.
    """
    limit = _raised_to(needed_for(databases, MOST))
    each = min(MOST, max(LEAST, (limit - _RESERVED) // max(1, databases) - _BESIDE))
    needed = needed_for(databases, LEAST)
    if needed > limit:
        log.warning(
            f"too few open files for every partition: {_remedy(needed)}",
            databases=databases, limit=limit,
        )  # fmt: skip
    return OpenFiles(limit, each)


def needed_for(databases: int, each: int) -> int:
    """Descriptors of a process with so many databases."""
    return _RESERVED + databases * (each + _BESIDE)


def _raised_to(wanted: int) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):  # also where the hard limit is beyond what the kernel takes
        return soft
    return allowed


def _remedy(needed: int) -> str:
    return (
        f"raise the limit on open files to {needed} (`ulimit -n`, systemd's LimitNOFILE), "
        "or share the partitions among more processes"
    )
