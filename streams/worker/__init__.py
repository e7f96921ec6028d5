"""The worker: takes leases, runs handlers, guards their effects. It starts in `run.py`.

    work_reader ─► reception ─► holdings ─► execution ─► context (steps, effects)
    reply_reader ─► replies ─────────────────▲             │
    pulse (heartbeats) ◄─ holdings           outbox ◄──────┘

Readers, pulse and watchdog have threads of their own, handlers share one event loop: a
handler that blocks the loop stops its neighbours, not the heartbeats of their leases.
"""
