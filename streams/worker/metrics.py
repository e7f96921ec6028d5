"""What a worker counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

HANDLER_SECONDS = Histogram(
    "tidegate_worker_handler_seconds",
    "Time in a handler, by how its run ended",
    ["type", "outcome"],
    buckets=(0.005, 0.02, 0.1, 0.5, 1, 5, 15, 60, 300, 1800),
)
RUNNING = Gauge("tidegate_worker_running", "Slots that leases fill")
LEASES = Counter("tidegate_worker_leases", "Leases read, by what became of them", ["answer"])
EFFECTS = Counter("tidegate_worker_effects", "Side effects, by how they ended", ["outcome"])
CLAIM_SECONDS = Histogram(
    "tidegate_worker_claim_seconds",
    "From the claim of a side effect to the ledger's answer",
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15),
)
LOOP_LAG_SECONDS = Gauge("tidegate_worker_loop_lag_seconds", "How late the handlers' event loop is")
