"""The part of a handler's context that tells people what the job does while it runs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from streams.errors import LeaseLost, PermanentError
from streams.serde.step_ids import HEARTBEAT_ID, caller_of
from streams.worker.handler.branches import current_branch
from streams.worker.handler.values import from_json
from streams.worker.live.line import Line

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from streams.worker.handler.run_session import RunSession


class Live:
    """Text, log lines and heartbeats: no call here blocks, and threads may make them, too.

    Nothing depends on what is said here: it reaches those who watch the job
    (`GET /v1/jobs/{id}/events`), is kept for a day at most, and is dropped where a run says too
    much. Results belong into the job's result and its steps.
    """

    def __init__(self, session: RunSession) -> None:
        self._said_by = session

    def stream(self, text: str) -> None:
        """Publish text as it comes, such as the tokens of a model.

        It belongs to the step or effect whose function calls this, else to the handler itself.
        Whoever watches gets the texts of a step in their order. A later run that streams in a
        step again has its readers drop what the earlier run said there.

        Raises:
            PermanentError: `text` is no string.
            LeaseLost: the run is over.
        """
        if not isinstance(text, str):
            raise PermanentError(f"stream: {type(text).__name__} is no text: give a str")
        if self.cancelled:
            raise LeaseLost(f"run {self._said_by.lease.run_id} is over: it starts nothing more")
        if text:
            # A lone surrogate cannot be sent.
            sendable = text.encode("utf-8", "replace").decode()
            self._said_by.live.token(caller_of(current_branch()), sendable)

    @cached_property
    def log(self) -> FilteringBoundLogger:
        """A structlog logger bound to the ids of job, run and tenant: `ctx.log.info("sent", to=x)`.

        Its lines go where the worker's own lines go, and are shown with the job.
        """
        from streams.worker.live.run_log import run_log

        return run_log(self._said_by.lease, self._publish)

    def heartbeat(self, details: Any) -> None:
        """Keep how far the work is, any JSON of at most 8 KiB, for the next attempt.

        The newest details count. They are sent once a second at most, so a process that is killed
        may lose the last second. They do not prolong the run's timeout.

        Raises:
            PermanentError: the details are not JSON, or too large.
        """
        self._said_by.heartbeats.beat(details)

    @property
    def heartbeat_details(self) -> Any:
        """The newest details that an earlier run of this job kept; None if there are none."""
        kept = (left.value for left in self._said_by.lease.steps if left.id == HEARTBEAT_ID)
        return from_json(next(kept, None))

    @property
    def cancelled(self) -> bool:
        """Whether the run is over: somebody cancelled the job, or its time or lease is over.

        The handler's task is cancelled then. A function in a thread cannot be: it looks here.
        """
        return self._said_by.has_ended

    def _publish(self, line: Line) -> None:
        self._said_by.live.line(caller_of(current_branch()), line)
