"""The handler's view of its job and its run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic

from ingress.formats.document import carried_json
from streams.errors import Misfit, PermanentError
from streams.http.moments import moment
from streams.serde.effect_scopes import JOB
from streams.serde.records import EventInfo
from streams.worker.handler.decision import Proposed
from streams.worker.handler.live import Live
from streams.worker.handler.outside import Outside
from streams.worker.handler.own_frames import calling_line
from streams.worker.handler.saving import Saving
from streams.worker.handler.spawning import Spawning
from streams.worker.handler.values import from_json, to_json
from streams.worker.handler.waiting import Waiting

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from streams.worker.credentials.credentials import Credentials
    from streams.worker.handler.approvals import Approvals
    from streams.worker.handler.artifacts import Artifacts
    from streams.worker.handler.children import Children
    from streams.worker.handler.effects import Effects
    from streams.worker.handler.gathering import Gathering
    from streams.worker.handler.history import History
    from streams.worker.handler.run_session import RunSession
    from streams.worker.handler.steps import Steps
    from streams.worker.handler.wait_calls import WaitCalls
    from streams.worker.handler.waits import Waits

    Input = TypeVar("Input", default=Any)  # mypy knows the default from the later typing module
else:
    from typing import TypeVar

    Input = TypeVar("Input")


class Context(Waiting, Spawning, Outside, Live, Saving, Generic[Input]):
    """One run of one job. Every method raises `LeaseLost` once the run is over.

    Let that error pass: the task is being cancelled, and another run may have begun.

    `Context[Refund]` is that of a handler whose input is a `Refund`: the worker checks it and makes
    one, before the preflight. The input of a plain `Context` is any JSON.
    """

    def __init__(
        self,
        session: RunSession,
        effects: Effects,
        steps: Steps,
        history: History,
        waits: Waits,
        calls: WaitCalls,
        approvals: Approvals,
        children: Children,
        gathering: Gathering,
        credentials: Credentials,
        artifacts: Artifacts,
    ) -> None:
        Waiting.__init__(self, waits, calls, approvals)
        Spawning.__init__(self, children, gathering)
        Outside.__init__(self, session, credentials)
        Live.__init__(self, session)
        Saving.__init__(self, artifacts)
        lease = session.lease
        self.tenant_id: str = lease.tenant_id
        self.job_id: str = lease.job_id
        self.run_id: str = lease.run_id
        self.attempt: int = lease.attempt
        self.event: EventInfo | None = lease.event
        self.events: list[EventInfo] = [each.event for each in lease.events] or (
            [] if lease.event is None else [lease.event]
        )
        self.input: Input = from_json(lease.input)
        self.schedule_id: str | None = lease.schedule_id
        self.scheduled_for: datetime | None = (
            None if lease.scheduled_for is None else moment(lease.scheduled_for)
        )
        self._session = session
        self._effects = effects
        self._steps = steps
        self._history = history

    @property
    def traceparent(self) -> str | None:
        """What a request made now carries as its header `traceparent` (W3C Trace Context).

        With traces on, it names the span of the present step, effect or run.
        """
        return self._session.traceparent

    async def payload(self, event: EventInfo | None = None) -> bytes:
        """The raw body of the job's event, as its vendor signed it, or of another one that it has.

        That is one of `ctx.events`, or one that it waited for.

        Raises:
            PermanentError: the job has no body, its body has expired on `payloads`, or the tenant
                was erased.
            TransientError: the owner of the job cannot give it now.
        """
        self._session.check()
        lease = self._session.lease
        event = lease.event if event is None else event
        place = None if event is None else self._body_of(event)
        if place is None:
            raise PermanentError(
                f"job {lease.job_id} has no such payload: a job that was submitted directly has "
                "ctx.input, and one that waited has the bodies of the events that it got"
            )
        with self._session.busy():
            return await self._session.requests.body(*place)

    def _body_of(self, event: EventInfo) -> tuple[int | None, str] | None:
        """Where the body of an event is: its place in the batch, or the wait that it ended."""
        lease = self._session.lease
        if event == lease.event and not lease.events:
            return None if lease.payload_ref is None else (None, "")
        batch = {each.event.event_id: index for index, each in enumerate(lease.events)}
        if event.event_id in batch:
            return batch[event.event_id], ""
        wait = self._waits.bodies.get(event.event_id)
        return None if wait is None else (None, wait)

    async def json(self, event: EventInfo | None = None) -> Any:
        """The document in an event's body: its JSON, or the JSON in the field `payload` of a form.

        `event` is one that `payload` takes; without it, the job's own.

        Raises:
            PermanentError: the body holds no JSON, or it cannot be read, as `payload` says.
            TransientError: as `payload` says.
        """
        body = await self.payload(event)
        try:
            return carried_json(body)
        except Misfit as error:
            event = event or self.event
            sent_as = event.content_type if event else "unknown"
            raise PermanentError(
                f"the event's body of the content type {sent_as!r} holds no JSON ({error}): read "
                "it with ctx.payload()"
            ) from error

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        key: str | None = None,
        was: str | None = None,
        strict: bool = False,
        model: str | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run a function once per job and keep its value, at most 256 KiB of JSON. Await the call.

        A later run returns the kept value. The call is numbered when it is made: the second one of
        a name in its branch is another step. `key` tells calls of one name apart instead. The value
        is always returned as read back from JSON, even the first time. A function that is not
        async runs in a thread. `was` is the earlier name of a renamed step. A step that is asked
        again with other arguments keeps its value, and the job shows that; `strict` fails the job.

        With `model`, which is not passed on, limits of the scope `model` count the call. If one is
        reached, the run ends before the function is called, and the job goes on once there is room.

        Raises:
            AmbiguousStep: another step of this name and key is in flight in this branch.
            PermanentError: the value is not JSON, or too large; the name or key cannot be kept.
        """
        return self._steps.step(
            name, function, args, kwargs, key=key, was=was, strict=strict, model=model
        )

    def patched(self, name: str) -> bool:
        """Whether the handler takes the new way at this place: `if ctx.patched("greeting"):`.

        False for a job whose finished steps of this branch go past this place without having been
        here, because former code made them. Otherwise true, and it stays so for the job.
        """
        self._session.check()
        return self._history.patched(name)

    def branch(self, name: str) -> AbstractAsyncContextManager[None]:
        """`async with ctx.branch("name"):` numbers the calls in it by themselves.

        Use one for each task of a handler that makes calls after each other: their order may differ
        between runs. The tasks that are made in it are in it, too.

        Raises:
            AmbiguousStep: a branch of this name is open.
        """
        return self._branch(name, calling_line())

    @asynccontextmanager
    async def _branch(self, name: str, line: str) -> AsyncIterator[None]:
        with self._history.branch(name, line):
            yield

    async def effect(
        self,
        tool: str,
        function: Callable[..., Any],
        /,
        *,
        key: str,
        once_per: str = JOB,
        model: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call `function(idempotency_key=..., **kwargs)` under the ledger's guard.

        `key` tells two calls of one tool apart and is not passed on; `kwargs` must be JSON. The
        key counts within the job. With `once_per="tenant"` it counts for all jobs of the tenant,
        and with another name for all of the tenant's calls under that name: a second job gets the
        first one's result, and waits without a slot while that is under way. The tool's `keep` says
        for how long.

        An effect that is done is not begun again: its kept result is returned. The function
        makes one attempt. It raises `TransientError` or `PermanentError` to say that nothing was
        done. After any other error the outcome is unknown: the effect is repeated under the same
        key if the tool honours keys (`App.tool`); otherwise a person decides.

        Limits of the scopes `tool` and `model` count the call; `model` names its model and is not
        passed on. If one is reached, the run ends, and the job goes on once there is room.

        If people have to approve it, the run parks until they have; then it goes on with the
        arguments that they approved.

        Raises:
            PermanentError: the tool is outside the job's scopes, the key was used with other
                arguments, the same action is under way, or an argument or result is not JSON.
            ApprovalRejected: people did not approve the effect.
        """
        try:
            arguments = await self._approvals.known(tool, key, kwargs)
            with self._session.busy():
                given = kwargs if arguments is None else arguments
                found = await self._effects.run(tool, function, key, given, once_per, model)
            if isinstance(found, Proposed):
                asked = found.arguments if arguments is None else kwargs
                await self._approvals.propose(tool, key, replace(found, arguments=asked))
            return found
        except BaseException:
            self._history.failed(f"{tool}/{key}")
            raise

    async def progress(self, value: Any) -> None:
        """Publish progress, any JSON of at most 256 KiB.

        Raises:
            PermanentError: the value is not JSON, or too large.
        """
        text = to_json(value, "progress")
        self._session.check()
        with self._session.busy():
            await self._session.progress(text)
