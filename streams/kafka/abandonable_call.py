"""Calls into librdkafka that may never return.

`send_offsets_to_transaction` ignores its timeout while the group's coordinator is away
(librdkafka#5456), and waits for ever if the coordinator came back under a new handle
(librdkafka#5511). It is called on a thread that can be abandoned together with its producer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from streams.process.daemon_thread import DaemonThread


class Hung(Exception):
    """The call has not returned; nothing that it uses may be used again."""


class AbandonableThread:
    """A daemon thread for calls of one producer, one at a time."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        DaemonThread("watched calls", self._run).start()

    def call(
        self,
        function: Callable[[], object],
        give_up: Callable[[], bool],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Run `function`, and `meanwhile` on this thread; an exception of either is raised here.

        Raises:
            Hung: `give_up`, which is called every 50 ms, answered True.
        """
        done = threading.Event()
        raised: list[BaseException] = []

        def run() -> None:
            try:
                function()
            except BaseException as error:
                raised.append(error)
            done.set()

        self._calls.put(run)
        meanwhile()
        while not done.wait(0.05):
            if give_up():
                raise Hung
        if raised:
            raise raised.pop()  # a reference from here would make a cycle of error and frame

    def leave(self) -> None:
        """Let the thread end, once the call in which it may hang has returned."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
