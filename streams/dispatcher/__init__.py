"""The dispatcher stage: it owns every job of its partitions, from the event to the job's end.

processor ─► commands ─► lifecycle ─► job_store ─► jobs (the states, as pure functions)
    │            └────► ledger           │
    └─► leasing ─► run queue (ready, running) ─► worker registry, leases, fairness, limits
            asking ───┘
"""

from streams.dispatcher.processor import stage

__all__ = ["stage"]
