"""Leases on the wire: only a holder of the cluster key can write one that a worker believes."""

from __future__ import annotations

import hmac

from streams.errors import PoisonRecord
from streams.serde.codec import LEASE
from streams.serde.records import Lease

_MAC_BYTES = 32


def seal_lease(lease: Lease, key: bytes) -> bytes:
    """Encode with the MAC in its last field: HMAC-SHA256 of every byte before it."""
    body = LEASE.encode(lease)[:-_MAC_BYTES]
    return body + hmac.digest(key, body, "sha256")


def open_lease(data: bytes | None, *keys: bytes) -> Lease:
    """Check that the MAC is under one of the keys, then decode.

    Raises:
        PoisonRecord: `forged_lease` if the MAC does not match, `undecodable` if it cannot be read.
    """
    body, mac = (data or b"")[:-_MAC_BYTES], (data or b"")[-_MAC_BYTES:]
    if not any(hmac.compare_digest(hmac.digest(key, body, "sha256"), mac) for key in keys):
        raise PoisonRecord("forged_lease", "the MAC is not of this cluster's key: not run")
    return LEASE.decode(data)
