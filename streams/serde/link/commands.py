"""The commands that a worker sends over the link: the kind of each, and its body in JSON."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from streams.errors import DecodeError
from streams.serde.link.messages import Order
from streams.serde.records import Command, CommandBody
from streams.serde.records.command_kinds import KIND_OF


def _kind(body: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", body.__name__).lower()


KINDS: dict[str, type] = {_kind(b): b for b, kind in KIND_OF.items() if kind.sender == "worker"}
"""The class of each kind of command that a worker sends."""

_NAMES = {body: name for name, body in KINDS.items()}
_BODIES: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(body) for name, body in KINDS.items()
}
_ORDER = msgspec.json.Decoder(Order)


def order(partition: int, number: int, command: Command) -> Order:
    """A command as it goes over the link."""
    body = msgspec.Raw(msgspec.json.encode(command.body))
    kind = _NAMES[type(command.body)]
    return Order(partition, number, kind, body, command.tenant_id, command.job_id, command.epoch)


def command(value: bytes | None, at: int) -> Command:
    """The command in a record that came over the link; it was read `at` (milliseconds).

    Raises:
        DecodeError: it is no command, or none that a worker may send.
    """
    try:
        read = _ORDER.decode(value or b"")
        found = _BODIES.get(read.kind)
        if found is None:
            raise DecodeError(f"a worker sends no {read.kind!r}")
        body: CommandBody = found.decode(read.body)
    except msgspec.MsgspecError as error:
        raise DecodeError(str(error)) from error
    return Command("", read.tenant_id, read.job_id, read.epoch, at, body)
