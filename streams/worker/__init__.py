"""The worker takes leases, runs handlers and guards their effects. It starts in `run.py`.

    transport/work_reader ─► lease/receiver ─► lease/held_leases ─► run_executor
    lease/heartbeater ◄──────────────────────────────────┘               ▼
                                                       middleware/chain ─► handler ─► context
    transport/reply_reader ─► transport/replies ───────────────────────▲      (steps, effects) │
                                                    transport/retrying_sender ◄───────────────┘

Readers, heartbeater and watchdog have threads of their own; handlers share one event loop. A
handler that blocks the loop stops the other handlers, but not the heartbeats of their leases.
"""
