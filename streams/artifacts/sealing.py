"""Seals an artifact: a key of its own encrypts it, and the tenant's data key seals that key.

So the erasure of the tenant destroys its artifacts, wherever copies of them lie. The sealed form is
a line of JSON, the head, and behind it the chunks: AES-256-GCM, each bound to its place, to its
number, and to whether it is the last. The nonce is the chunk's number, since no key seals twice.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streams.artifacts.reference import Reference
from streams.errors import PermanentError
from streams.serde.records import Sealed
from streams.serde.sizes import CHUNK_BYTES, NONCE_BYTES
from streams.vault.key_encryption import KEY_BYTES
from streams.vault.keyring import DataKeyring
from streams.vault.sealed_json import open_with

MAX_HEAD_BYTES = 4096
_TAG_BYTES = 16
_FORM = 1


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before an artifact's chunks: its reference, and its sealed key."""

    reference: Reference
    key: Sealed


def new_secret() -> str:
    """A key for one artifact, as base64. It is sealed as JSON at the artifact's place."""
    return base64.b64encode(AESGCM.generate_key(KEY_BYTES * 8)).decode()


def sealed(
    secret: str, key: Sealed, tenant_id: str, reference: Reference, content: bytes
) -> Iterator[bytes]:
    """Yield an artifact's head and chunks; `key` is the sealed secret."""
    place = place_of(tenant_id, reference.artifact, reference.of)
    yield _head(reference, key)
    cipher = AESGCM(base64.b64decode(secret))
    chunks = range(0, len(content) or 1, CHUNK_BYTES)
    for number, start in enumerate(chunks):
        chunk = memoryview(content)[start : start + CHUNK_BYTES]
        bound = _bound(place, number, is_last=number == len(chunks) - 1)
        yield cipher.encrypt(number.to_bytes(NONCE_BYTES), chunk, bound)


def head_of(data: bytes) -> tuple[Head, int]:
    """The head at the beginning of an artifact's sealed form, and where its chunks begin.

    Raises:
        PermanentError: there is none.
    """
    line, newline, _ = data[:MAX_HEAD_BYTES].partition(b"\n")
    try:
        fields: dict[str, Any] = orjson.loads(line)
        if not newline or fields["form"] != _FORM:
            raise ValueError("another form")
        key = Sealed(fields["key_id"], base64.b64decode(fields["key"]))
        return Head(Reference.of_json(fields["reference"]), key), len(line) + 1
    except (ValueError, KeyError, TypeError) as error:
        raise PermanentError("what lies in the artifact's place is none: it is damaged") from error


async def opened(keyring: DataKeyring, tenant_id: str, reference: Reference, data: bytes) -> bytes:
    """The content of an artifact's sealed form.

    Raises:
        PermanentError: it is damaged, lies in another place, or the tenant is erased.
        TransientError: its key is not known here now.
    """
    place = place_of(tenant_id, reference.artifact, reference.of)
    secret = await open_with(keyring, tenant_id, place, head_of(data)[0].key)
    return opened_with(secret, tenant_id, reference, data)


def opened_with(secret: str, tenant_id: str, reference: Reference, data: bytes) -> bytes:
    """The content of an artifact's sealed form, whose secret was opened.

    Raises:
        PermanentError: it is damaged, or lies in another place.
    """
    _, at = head_of(data)
    place = place_of(tenant_id, reference.artifact, reference.of)
    cipher = AESGCM(base64.b64decode(secret))
    content = b"".join(_chunks(cipher, place, memoryview(data)[at:]))
    if len(content) != reference.size or at == len(data):
        raise PermanentError(_damaged(reference))
    return content


def _chunks(cipher: AESGCM, place: str, data: memoryview) -> Iterator[bytes]:
    step = CHUNK_BYTES + _TAG_BYTES
    starts = range(0, len(data), step)
    for number, start in enumerate(starts):
        bound = _bound(place, number, is_last=number == len(starts) - 1)
        try:
            yield cipher.decrypt(number.to_bytes(NONCE_BYTES), data[start : start + step], bound)
        except (InvalidTag, ValueError) as error:
            raise PermanentError(f"{place} is damaged at its chunk {number}") from error


def _head(reference: Reference, key: Sealed) -> bytes:
    fields = {
        "form": _FORM,
        "reference": reference.as_json(),
        "key_id": key.key_id,
        "key": base64.b64encode(key.data).decode(),
    }
    return orjson.dumps(fields) + b"\n"


def place_of(tenant_id: str, artifact: str, of: str) -> str:
    """Return the place to which an artifact's key is bound; `of` is the job that saved it."""
    return f"artifact {artifact} of {of} of tenant {tenant_id}"


def _bound(place: str, number: int, *, is_last: bool) -> bytes:
    return f"{place}\0{number}\0{int(is_last)}".encode()


def _damaged(reference: Reference) -> str:
    return (
        f"artifact {reference.artifact} has not the {reference.size:,} bytes that its reference "
        "says: it is damaged"
    )
