"""Faults put into the permits of shared limits, to prove that the checks see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from streams.dispatcher.parts import permit_owners
from streams.limits import permits, sharing
from streams.limits.permits import Holding
from streams.limits.sharing import Share, Shares


def _by_timeout(shares: Shares, cap: int, now: int, *_: object) -> dict[int, Share]:
    """A holder that was given nothing for a while is taken to have nothing."""
    lost = {
        holder: replace(share, returned=share.granted)
        for holder, share in shares.items()
        if share.since + 500 < now
    }
    return lost | sharing.shared_out({**shares, **lost}, cap, now)


def _added_up(share: Share | None, claim: Share) -> Share | None:
    """What a holder tells is added to what was known of it."""
    if share is None:
        return claim
    returned = share.returned + claim.returned
    return replace(share, number=claim.number, returned=returned, want=claim.want)


def _position(self: Holding, granted: int, target: int) -> Holding:
    """A grant has how many permits are new, and not how many there are in all."""
    return replace(self, granted=self.granted + granted, target=target)


FAULTS: dict[str, Callable[[], Any]] = {
    "permits by timeout": lambda: patch.object(permit_owners, "shared_out", _by_timeout),
    "add instead of replace": lambda: patch.object(permit_owners, "claimed", _added_up),
    "positions instead of counts": lambda: patch.object(permits.Holding, "told", _position),
}
