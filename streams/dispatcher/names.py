"""Checks the names that become parts of the stores' keys."""

from __future__ import annotations

from streams.errors import PoisonRecord
from streams.serde.records import Command, Envelope, Replay, ReplayEvent, Submit


def check(value: Envelope | Command) -> None:
    """Reject a name that contains the separator of the keys' parts.

    Raises:
        PoisonRecord: the name of a tenant, job or type contains a NUL.
    """
    if "\0" in value.tenant_id or (isinstance(value, Command) and "\0" in _names(value)):
        raise PoisonRecord("bad_id", "a NUL separates the parts of the stores' keys")


def _names(command: Command) -> str:
    body = command.body
    type_ = body.type if isinstance(body, Submit | Replay | ReplayEvent) else None
    return command.job_id + (type_ or "")
