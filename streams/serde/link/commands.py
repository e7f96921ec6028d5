"""The commands that a worker sends over the link: the kind of each, and its body in JSON.

A body has the fields of its record. None says whose it is: a worker speaks for itself.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import msgspec

from streams.errors import DecodeError
from streams.serde.link.bounds import MOST, within
from streams.serde.link.frames import UNREADABLE
from streams.serde.link.messages import Order
from streams.serde.records import Command
from streams.serde.records.command_kinds import KIND_OF


def _kind(body: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", body.__name__).lower()


def _said(body: type) -> type[msgspec.Struct]:
    """The body in JSON, which has the fields of its record."""
    types = get_type_hints(body)
    said = [
        (each.name, types[each.name], *(() if each.default is MISSING else (each.default,)))
        for each in fields(body)
    ]
    return msgspec.defstruct(body.__name__, said, kw_only=True)


KINDS: dict[str, type] = {_kind(b): b for b, kind in KIND_OF.items() if kind.sender == "worker"}
"""The class of each kind of command that a worker sends."""

BODIES: dict[str, type[msgspec.Struct]] = {name: _said(body) for name, body in KINDS.items()}
"""The body of each kind, as the link has it."""

_NAMES = {body: name for name, body in KINDS.items()}
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(body) for name, body in BODIES.items()
}
_WITHIN = {name: within(body) for name, body in KINDS.items()}
_ORDER = msgspec.json.Decoder(Order)


def order(partition: int, number: int, command: Command) -> Order:
    """A command as it goes over the link; its owner dates it."""
    kind = _NAMES[type(command.body)]
    said = {name: getattr(command.body, name) for name in BODIES[kind].__struct_fields__}
    body = msgspec.Raw(msgspec.json.encode(said))
    return Order(partition, number, kind, body, command.tenant_id, command.job_id, command.epoch)


def command(value: bytes | None, at: int) -> Command:
    """The command in a record that came over the link; it was read `at` (milliseconds).

    Raises:
        DecodeError: it is no command, or none that a worker may send.
    """
    try:
        read = _ORDER.decode(value or b"")
        decoder = _DECODERS.get(read.kind)
        if decoder is None:
            raise DecodeError(f"a worker sends no {read.kind!r}")
        said = msgspec.structs.asdict(decoder.decode(read.body))
    except UNREADABLE as error:
        raise DecodeError(str(error)) from error
    body = KINDS[read.kind](**said)
    is_within = _WITHIN[read.kind]
    if is_within is not None and not is_within(body):
        raise DecodeError(f"a number of a command is beyond {MOST:,}")
    return Command("", read.tenant_id, read.job_id, read.epoch, at, body)
