"""The states of an effect in the ledger; docs/effects.md explains them."""

from __future__ import annotations

from typing import Final, Literal

EffectStatus = Literal["claimed", "done", "failed", "unknown", "review", "shared"]
CLAIMED: Final = "claimed"
DONE: Final = "done"
FAILED: Final = "failed"
"""The effect was not done: it may be tried again."""
UNKNOWN: Final = "unknown"
REVIEW: Final = "review"
"""A person has to say whether the effect was done."""
SHARED: Final = "shared"
"""A job asked for an effect that counts beyond it: its entry is in the shared scope."""

OutcomeStatus = Literal["done", "failed", "unknown"]
"""How a call of a tool ended."""
SettledStatus = Literal["done", "failed"]
"""What a person can say of an effect."""

UNSETTLED: tuple[EffectStatus, ...] = (CLAIMED, UNKNOWN, REVIEW)
"""In these the outcome of the call is not known, or not yet."""
BEGUN: tuple[EffectStatus, ...] = (DONE, *UNSETTLED)
"""In these the effect happened, or may have."""
