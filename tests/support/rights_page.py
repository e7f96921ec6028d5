"""The table of rights in docs/rights.md, as the code has it."""

from __future__ import annotations

from collections.abc import Iterable

from streams.topology.model import Topology
from streams.topology.rights import Operation, Resource, Right, users

HEADING = "| process | `Read` on topics | `Write` on topics | groups | transactional ids |"


def rows(topology: Topology) -> list[str]:
    """The lines of the table below its heading."""
    found = []
    for user in users(topology):
        groups = _names(user.rights, "group", "Read")
        asked = _names(user.rights, "group", "Describe")
        cells = (
            _names(user.rights, "topic", "Read"),
            _names(user.rights, "topic", "Write"),
            ", ".join(filter(None, (groups, f"sees {asked}" if asked else ""))),
            _names(user.rights, "transactional_id", "Write"),
        )
        found.append(f"| {user.process} | {' | '.join(cell or '-' for cell in cells)} |")
    return found


def _names(rights: Iterable[Right], resource: Resource, operation: Operation) -> str:
    return ", ".join(
        f"`{right.name}{'*' if right.prefixed else ''}`"
        for right in rights
        if (right.resource, right.operation) == (resource, operation)
    )
