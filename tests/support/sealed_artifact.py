"""An artifact in its sealed form, as a worker and an owner of partitions make it together."""

from __future__ import annotations

from collections.abc import Iterator

from streams.artifacts import sealing
from streams.artifacts.reference import Reference
from streams.vault.keyring import DataKeyring
from streams.vault.sealed_json import seal_with


def sealed(
    keyring: DataKeyring, tenant_id: str, reference: Reference, content: bytes
) -> Iterator[bytes]:
    """Yield its head and chunks."""
    secret = sealing.new_secret()
    place = sealing.place_of(tenant_id, reference.artifact, reference.of)
    key = seal_with(keyring, tenant_id, place, secret)
    return sealing.sealed(secret, key, tenant_id, reference, content)
