"""The worker takes leases, runs handlers and guards their effects. It starts in `run.py`.

    link/dialer ─► link/link ─► link/taking ─► lease/held_leases ─► run_executor
                     ▲   │                                              ▼
                     │   │                          middleware/chain ─► handler ─► context
                     │   └──► link/replies ─────────────────────────────▲      (steps, effects) │
                     └── link/run_commands, link/run_requests ◄─────────────────────────────────┘

The dialer and the watchdog have threads of their own; handlers share one event loop. A handler that
blocks the loop stops the other handlers, but not the heartbeats of their leases.
"""
