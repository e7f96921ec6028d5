"""Lets a child that this process forks end by its own signals.

A forked child (`multiprocessing`, `os.fork`) inherits the handlers of its parent's signals and the
descriptor through which an event loop is told of them. So SIGTERM to the child would end the parent
and not the child.
"""

from __future__ import annotations

import os
import signal
import threading

_TAKEN = (signal.SIGTERM, signal.SIGINT)
"""The signals that processes of ours handle."""


def let_forked_children_end() -> None:
    """Give every child that is forked from now on Python's own handlers of SIGTERM and SIGINT.

    Call this once in a process. A handler that the child installs itself stays.
    """
    forking = threading.local()

    def hold_signals_back() -> None:
        # A signal that comes to the child before its reset would still reach the parent.
        forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)

    def let_signals_through() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, forking.mask)

    def reset() -> None:
        signal.set_wakeup_fd(-1)
        for number in _TAKEN:
            if callable(signal.getsignal(number)):
                signal.signal(number, _default(number))
        let_signals_through()

    os.register_at_fork(
        before=hold_signals_back, after_in_parent=let_signals_through, after_in_child=reset
    )


def _default(number: signal.Signals) -> signal._HANDLER:
    return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
