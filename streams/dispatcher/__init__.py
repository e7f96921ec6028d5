"""The dispatcher stage: it owns every job of its partitions, from the event to the job's end.

processor ─► commands ─► lifecycle ─► job_store ─► jobs (the states, as pure functions)
    │            └────► ledger           │
    └─► lease_granting ─► run_queue ─► worker_registry ─► active_leases
        worker_queries ───┘    └─► fairness (order, limits)
"""

from streams.dispatcher.processor import stage

__all__ = ["stage"]
