"""Frames of the link: JSON arrays of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import msgspec

from streams.errors import DecodeError
from streams.serde.link.messages import FromOwner, FromWorker, Message

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The largest frame that either end takes."""
MAX_COMMAND_BYTES = 4 * 1024 * 1024
"""The largest command that an owner takes; no record that it changes could hold as much."""
MAX_MESSAGES = 10_000
"""The most messages of a frame that an owner takes: it does nothing else meanwhile."""

UNREADABLE = (msgspec.MsgspecError, RecursionError)
"""What reading JSON raises; RecursionError if lists or objects are nested too deep."""

_FROM_WORKER = msgspec.json.Decoder(list[FromWorker])
_FROM_OWNER = msgspec.json.Decoder(list[FromOwner])
_OF_OWNERS = frozenset(each.__struct_config__.tag for each in get_args(FromOwner))


def frame(messages: Sequence[Message]) -> bytes:
    """The bytes of a frame."""
    return msgspec.json.encode(messages)


def encoded(message: Message) -> bytes:
    """The bytes of one message; `joined` makes a frame of several."""
    return msgspec.json.encode(message)


def joined(messages: Sequence[bytes]) -> bytes:
    """The frame of messages that are encoded already."""
    return b"[" + b",".join(messages) + b"]"


def from_worker(data: bytes | str) -> list[FromWorker]:
    """The messages of a worker's frame.

    Raises:
        DecodeError: it is none.
    """
    try:
        read = _FROM_WORKER.decode(data)
    except UNREADABLE as error:
        raise DecodeError(str(error)) from error
    if len(read) > MAX_MESSAGES:
        raise DecodeError(f"it has {len(read):,} messages, more than {MAX_MESSAGES:,}")
    return read


def from_owner(data: bytes | str) -> list[FromOwner]:
    """The messages of an owner's frame, without those whose types only a newer worker knows.

    Raises:
        DecodeError: it is none.
    """
    try:
        return _FROM_OWNER.decode(data)
    except UNREADABLE as error:
        known = _known_alone(data)
        if known is None:
            raise DecodeError(str(error)) from error
        return known


def _known_alone(data: bytes | str) -> list[FromOwner] | None:
    """The messages of known types in a frame; None if one of them cannot be read, or all are."""
    try:
        said = msgspec.json.decode(data, type=list[dict[str, msgspec.Raw]])
        types = [msgspec.json.decode(each["type"], type=str) for each in said]
        known = [each for each, of in zip(said, types, strict=True) if of in _OF_OWNERS]
        if len(known) == len(said):
            return None
        return _FROM_OWNER.decode(msgspec.json.encode(known))
    except (*UNREADABLE, KeyError):
        return None
