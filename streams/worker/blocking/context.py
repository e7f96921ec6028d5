"""What a handler gets that is a plain function: a context whose calls block until they are done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streams.errors import LeaseLost

if TYPE_CHECKING:
    from streams.serde.records import EventInfo
    from streams.worker.handler.context import Context

Input = TypeVar("Input")
Call = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
"""Makes a call of the run's own context, by name, and returns or raises what that does."""


@dataclass(frozen=True, slots=True)
class View:
    """What is known of a run from its beginning, as `Context` has it."""

    tenant_id: str
    job_id: str
    run_id: str
    attempt: int
    input: Any
    event: EventInfo | None
    events: list[EventInfo]
    schedule_id: str | None
    scheduled_for: datetime | None
    heartbeat_details: Any
    traceparent: str | None


def view_of(ctx: Context[Any]) -> View:
    """What a plain function may read of a run without asking."""
    return View(**{name: getattr(ctx, name) for name in View.__dataclass_fields__})


class BlockingContext(Generic[Input]):
    """One run of one job, for a handler that is not async. `Context` says what each call does.

    A call begins at once and returns once it is done, so there are no values to wait for together:
    `first`, `all`, `gather`, `listen` and `branch` are for async handlers. A call raises once the
    run is over; a thread cannot be interrupted before that.
    """

    def __init__(self, view: View, call: Call) -> None:
        self.tenant_id = view.tenant_id
        self.job_id = view.job_id
        self.run_id = view.run_id
        self.attempt = view.attempt
        self.input: Input = view.input
        self.event = view.event
        self.events = view.events
        self.schedule_id = view.schedule_id
        self.scheduled_for = view.scheduled_for
        self.heartbeat_details = view.heartbeat_details
        self.traceparent = view.traceparent
        self._call = call

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The function's value, kept over retries; it takes what `Context.step` takes."""
        return self._call("step", (name, function, *args), kwargs)

    def effect(self, tool: str, function: Callable[..., Any], /, *, key: str, **kwargs: Any) -> Any:
        """The result of one guarded call; it takes what `Context.effect` takes."""
        return self._call("effect", (tool, function), {"key": key, **kwargs})

    def json(self, event: EventInfo | None = None) -> Any:
        """The document in an event's body."""
        return self._call("json", (event,), {})

    def payload(self, event: EventInfo | None = None) -> bytes:
        """The raw body of an event."""
        found: bytes = self._call("payload", (event,), {})
        return found

    def credentials(self, name: str) -> str:
        """The present value of a credential of the topology."""
        return str(self._call("credentials", (name,), {}))

    def progress(self, value: Any) -> None:
        """Publish progress, any JSON."""
        self._call("progress", (value,), {})

    def stream(self, text: str) -> None:
        """Publish text as it comes."""
        self._call("stream", (text,), {})

    def heartbeat(self, details: Any) -> None:
        """Keep how far the work is, for the next attempt."""
        self._call("heartbeat", (details,), {})

    def log(self, event: str, **fields: Any) -> None:
        """Write a log line that the job shows."""
        self._call("log", (event,), fields)

    @property
    def cancelled(self) -> bool:
        """Whether the run is over: look here in long work that makes no other call."""
        try:
            return bool(self._call("cancelled", (), {}))
        except LeaseLost:  # no call is made any more
            return True

    def patched(self, name: str) -> bool:
        """Whether the job takes the new way at this place of changed code."""
        return bool(self._call("patched", (name,), {}))

    def save(
        self, content: bytes, *, name: str, content_type: str = "application/octet-stream"
    ) -> dict[str, Any]:
        """Keep bytes as an artifact; returns its reference."""
        given = {"name": name, "content_type": content_type}
        found: dict[str, Any] = self._call("save", (content,), given)
        return found

    def load(self, reference: object) -> bytes:
        """The content of an artifact."""
        found: bytes = self._call("load", (reference,), {})
        return found

    def enqueue(self, type: str, input: object = None, **kwargs: Any) -> Any:
        """Make a job of one's own; with `wait=True`, its result, otherwise its id."""
        return self._call("enqueue", (type, input), kwargs)

    def sleep(self, seconds: Any = None, **kwargs: Any) -> None:
        """Wait for a time, without a slot."""
        self._call("sleep", (seconds,), kwargs)

    def wait_for_event(self, match: Mapping[str, Any], **kwargs: Any) -> Any:
        """Wait for an event, without a slot; returns it."""
        return self._call("wait_for_event", (match,), kwargs)

    def wait_for_job(self, job_id: str, **kwargs: Any) -> Any:
        """Wait for another job's end, without a slot; returns its result."""
        return self._call("wait_for_job", (job_id,), kwargs)

    def approval(self, key: str, **kwargs: Any) -> Any:
        """Wait for people to decide; returns their `Decision`."""
        return self._call("approval", (key,), kwargs)

    def continue_as_new(self, input: object) -> Any:
        """End this run, and begin the job anew with another input."""
        return self._call("continue_as_new", (input,), {})
