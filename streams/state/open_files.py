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
"""More open files make no lookup faster: this covers a store of some ten GB."""
LEAST = 32
"""Fewer make each lookup open and close files."""
_BESIDE = 12
"""Descriptors of a database beyond its tables: directory, lock, manifest, logs, a compaction's."""
_RESERVED = 256
"""Descriptors for everything else: connections to the brokers, probes, libraries."""


@dataclass(frozen=True)
class OpenFiles:
    """A process's limit on descriptors; `each` is the share of one database."""

    limit: int
    each: int

    def refuse_more(self, databases: int) -> None:
        """Raise ConfigError if this many databases cannot be open at once."""
        needed = needed_for(databases, LEAST)
        if needed > self.limit:
            raise ConfigError(
                f"{databases} databases need {needed} open files, and the process may open "
                f"{self.limit}: {_remedy(needed)}"
            )


def share_out(databases: int) -> OpenFiles:
    """Raise the process's limit as far as allowed and needed, and share it among databases.

    If the limit does not suffice for all of them, only warn and name the remedy: the process may be
    assigned no more partitions than the limit allows.
    """
    limit = _raised_to(needed_for(databases, MOST))
    each = min(MOST, max(LEAST, (limit - _RESERVED) // max(1, databases) - _BESIDE))
    needed = needed_for(databases, LEAST)
    if needed > limit:
        log.warning(
            f"too few open files for every partition: {_remedy(needed)}",
            databases=databases,
            limit=limit,
        )
    return OpenFiles(limit, each)


def needed_for(databases: int, each: int) -> int:
    """Descriptors of a process with this many databases."""
    return _RESERVED + databases * (each + _BESIDE)


def _raised_to(wanted: int) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):  # also if the hard limit exceeds what the kernel accepts
        return soft
    return allowed


def _remedy(needed: int) -> str:
    return (
        f"raise the limit on open files to {needed} (`ulimit -n`, systemd's LimitNOFILE), "
        "or share the partitions among more processes"
    )
