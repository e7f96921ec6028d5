"""A run's question to the owner of its job, asked until it is answered."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from streams.serde.records import CommandBody, Reply
from streams.worker.handler.asking import RESEND_SECONDS
from streams.worker.link.contract import NEVER

if TYPE_CHECKING:
    from simulation.run_model import RunModel


def ask(
    run: RunModel,
    body: CommandBody,
    answer: Callable[[], Reply | None],
    is_wanted: Callable[[], bool],
) -> Generator[None, None, int]:
    """Return how often it was asked, once there is an answer.

    It is asked again if its acknowledgement came without an answer, which may be lost.
    """

    def until() -> float:
        return run.held.valid_until if is_wanted() and answer() is None else NEVER

    copies = 0
    while answer() is None:
        told: list[bool] = []
        copies += 1
        run.worker.post(run.lease, body, until, told.append)
        while not told and answer() is None:
            yield
        again = run.worker.seconds + RESEND_SECONDS
        if told and not told[0] and answer() is None:
            run.stop("lost", "a question could not be sent in time")
            yield
        while answer() is None and run.worker.seconds < again:
            yield
    return copies
