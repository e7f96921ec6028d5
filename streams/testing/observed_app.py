"""The application with every handler looked at: the same functions, in a context that observes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from streams.errors import PermanentError
from streams.serde.effect_scopes import JOB
from streams.serde.records import EventInfo, Lease
from streams.testing.blocking import run_outside, runs_outside
from streams.testing.points import Points
from streams.testing.stops import Place, Stops
from streams.testing.tools import Tools, called
from streams.testing.virtual_loop import waits_outside
from streams.worker.app import App
from streams.worker.handler.context import Context
from streams.worker.handler.values import digest
from streams.worker.job_types import JobFunction, PreflightFunction
from streams.worker.typed.handler_types import HandlerTypes


class Observer:
    """What one bench puts between handlers and their contexts.

    `arguments` are those of every effect that a handler asked for: the ledger keeps their digest.
    """

    def __init__(self, tools: Tools, stops: Stops, points: Points) -> None:
        self.arguments: dict[bytes, dict[str, Any]] = {}
        self.tools = tools
        self.stops = stops
        self.points = points

    def app(self, app: App) -> App:
        """A copy of the application whose handlers and preflights are observed."""
        copy = App(app.name, version=app.version)
        copy.tools = app.tools
        copy.providers = app.providers
        copy.declarations = app.declarations
        copy.middleware = app.middleware
        copy.policies = app.policies
        copy.jobs = {
            name: replace(
                job, function=self._handler(job.function), types=ObservedTypes(job.types, self)
            )
            for name, job in app.jobs.items()
        }
        copy.preflights = {name: self._preflight(of) for name, of in app.preflights.items()}
        return copy

    def _handler(self, function: JobFunction) -> JobFunction:
        async def handle(ctx: Context) -> Any:
            observed = ObservedContext(ctx, self)
            if runs_outside(function):
                return await run_outside(function, observed)
            return await function(observed)

        return handle

    def _preflight(self, function: PreflightFunction) -> PreflightFunction:
        async def check(ctx: Context) -> bool:
            return await function(ObservedContext(ctx, self))

        return check


class ObservedContext(Context):
    """The context of a run, which passes everything on to the real one."""

    def __init__(self, ctx: Context, observer: Observer) -> None:
        self.__dict__.update(vars(ctx))
        self._observer = observer

    async def payload(self, event: EventInfo | None = None) -> bytes:
        """See `Context.payload`."""
        with waits_outside():  # a large body is opened in a thread
            return await super().payload(event)

    def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """See `Context.step`."""
        place = Place(self.job_id, self.attempt, name)
        stops, points = self._observer.stops, self._observer.points

        async def made(*args: Any, **kwargs: Any) -> Any:
            if points.step_begins(self.job_id, name):
                await asyncio.Event().wait()  # its process is dead
            await stops.reached(place, done=False)
            value = await called(function, *args, **kwargs)
            await stops.reached(place, done=True)
            return value

        return super().step(name, made if callable(function) else function, *args, **kwargs)

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
        """See `Context.effect`."""
        place = Place(self.job_id, self.attempt, tool, key)
        made = self._observer.tools.in_place_of(function, place, kwargs)
        self._note(kwargs)
        return await super().effect(tool, made, key=key, once_per=once_per, model=model, **kwargs)

    def _note(self, arguments: dict[str, Any]) -> None:
        try:
            found = digest(arguments, "an effect")
        except PermanentError:
            return  # refused where it is checked
        self._observer.arguments[found] = dict(arguments)


class ObservedTypes(HandlerTypes):
    """The types of a handler, which read the body of an event as an observed context does."""

    def __init__(self, types: HandlerTypes, observer: Observer) -> None:
        self.__dict__.update(vars(types))
        self._observer = observer

    async def input_of(self, ctx: Context, lease: Lease) -> Any:
        """See `HandlerTypes.input_of`."""
        return await super().input_of(ObservedContext(ctx, self._observer), lease)
