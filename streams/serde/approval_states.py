"""The states of an approval; docs/approvals.md explains them."""

from __future__ import annotations

from typing import Final, Literal

ApprovalStatus = Literal["pending", "approved", "rejected", "expired", "cancelled"]
PENDING: Final = "pending"
APPROVED: Final = "approved"
REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
"""Nobody decided in time."""
CANCELLED: Final = "cancelled"
"""Its job ended, or does not wait for it any more."""

DECIDED: tuple[ApprovalStatus, ...] = (APPROVED, REJECTED)
"""In these somebody decided."""
