"""The stage's metrics, over all partitions that this process owns."""

from __future__ import annotations

from prometheus_client import Counter

ATTEMPTS = Counter(
    "tidegate_delivery_attempts", "Attempts that ended, by the class of their failure", ["error"]
)
CIRCUITS_OPENED = Counter(
    "tidegate_delivery_circuits_opened", "Circuits that opened after repeated failure"
)
EXPIRED = Counter(
    "tidegate_delivery_expired_rows", "Rows that were pending or parked too long, and are dead"
)
DECISIONS = Counter(
    "tidegate_delivery_decisions",
    "Commands of people that were answered, by what became of them",
    ["verb", "outcome"],
)
