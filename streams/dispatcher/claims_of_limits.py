"""Checks what a partition claims of a shared limit, before its numbers are kept."""

from __future__ import annotations

from streams.errors import PoisonRecord
from streams.serde.records import LimitClaim
from streams.topology.model import Topology

TOPIC = "limits.claims"
_MOST, _MOST_AT_ONCE = 1 << 62, (1 << 31) - 1


def check(claim: LimitClaim, topology: Topology) -> None:
    """Reject what no partition claims.

    Raises:
        PoisonRecord: a number is negative or too large, or there is no such partition.
    """
    totals = claim.incarnation, claim.number, claim.granted, claim.returned
    are_counts = all(0 <= total < _MOST for total in totals) and claim.returned <= claim.granted
    counts = claim.want, claim.tokens, claim.granted - claim.returned
    if not are_counts or not all(0 <= count <= _MOST_AT_ONCE for count in counts):
        raise PoisonRecord("bad_claim", "a claim has numbers that no partition counts to")
    if not 0 <= claim.holder < topology.topics[TOPIC].partitions:
        raise PoisonRecord("no_such_partition", f"{TOPIC}-{claim.holder} is not declared")
