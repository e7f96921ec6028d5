"""The metrics of every stage: one family for all, labelled with the stage."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_STAGE = ["stage"]

RECORDS = Counter("tidegate_stage_records", "Input records processed", _STAGE)
POISON = Counter("tidegate_stage_poison", "Input records sent to dlq", _STAGE)
COMMANDS_DROPPED = Counter(
    "tidegate_stage_commands_dropped",
    "Commands of workers that can never be handled and have no answer",
    _STAGE,
)
TRANSACTIONS = Counter(
    "tidegate_stage_transactions", "Transactions by outcome", [*_STAGE, "outcome"]
)
COMMIT_SECONDS = Histogram(
    "tidegate_stage_commit_seconds",
    "From the first record produced to the commit acknowledged",
    _STAGE,
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
LAG_RECORDS = Gauge("tidegate_stage_lag_records", "Input records not yet processed", _STAGE)
LAG_SECONDS = Gauge(
    "tidegate_stage_lag_seconds",
    "For how long the oldest unread record has waited, at most; the silence of broker or stage",
    _STAGE,
)
BLOCKED_SECONDS = Gauge(
    "tidegate_stage_blocked_seconds",
    "How long an open transaction has held up an input that is read up to it, else 0",
    _STAGE,
)
RESTORE_LEFT = Gauge("tidegate_stage_restore_records_left", "Changelog offsets to restore", _STAGE)
RESTORE_SECONDS_LEFT = Gauge(
    "tidegate_stage_restore_seconds_left", "Until restored, at the pace so far", _STAGE
)
WALL_CLOCK_AHEAD = Gauge(
    "tidegate_stage_wall_clock_ahead_seconds",
    "This machine's wall clock less the broker's time; nothing is decided by the former",
    _STAGE,
)
STORE_WRITES = Counter("tidegate_stage_store_writes", "Changes of stores committed", _STAGE)
