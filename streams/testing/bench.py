"""`Bench`: an application's jobs from event to end, in memory and on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self

from streams.errors import ConfigError
from streams.testing import admission
from streams.testing.beside_loop import beside_loop
from streams.testing.crash_points import Crash
from streams.testing.credentials import FakeCredential
from streams.testing.installation import TENANT, Installation
from streams.testing.job import Job
from streams.testing.routing import routed_by_caller, routed_by_file
from streams.testing.tools import Fake
from streams.testing.values import Call
from streams.worker.app import App

_PATIENCE_SECONDS = 30.0


class Bench:
    """The product's own pipeline and worker around an application, without Kafka.

    With `topology`, its routes give events their jobs, and its pools, limits, attempts and timeouts
    hold; without, each event names its job type. A `strict` bench calls no tool that has no fake.
    `patience` is how many real seconds one call of the bench may take. `crash` is that of a pass of
    `crash_points`. Use the bench as a context manager, or `close` it.

    Raises:
        ConfigError: the application or the topology cannot be used; it says why.
    """

    @beside_loop
    def __init__(
        self,
        app: App,
        *,
        topology: str | Path | None = None,
        strict: bool = False,
        patience: float = _PATIENCE_SECONDS,
        crash: Crash | None = None,
    ) -> None:
        app.check_effects()
        if crash is not None:
            crash.begin()
        self._crash = crash
        wiring = routed_by_caller() if topology is None else routed_by_file(Path(topology))
        self._application = app
        self._behind = Installation(app, wiring, crash, strict=strict, patience=patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and self._crash is not None:
            error.add_note(str(self._crash))
        self.close()

    @beside_loop
    def close(self) -> None:
        """End every handler that still runs, and release what the bench holds."""
        self._behind.close()

    @property
    def seconds(self) -> float:
        """The virtual seconds since the bench began."""
        return self._behind.pipeline.seconds()

    @property
    def calls(self) -> list[Call]:
        """Every call of a tool's function, or of its fake, in the order in which they were made."""
        return list(self._behind.tools.calls)

    @property
    def happened(self) -> list[Call]:
        """The calls that returned, without those that a tool has recognised by their key."""
        return self._behind.happened()

    @beside_loop
    def event(
        self,
        event_type: str,
        payload: object = None,
        *,
        source: str = "test",
        job: str | None = None,
        key: str | None = None,
        subject: str | None = None,
        occurred_at: datetime | None = None,
        attributes: Mapping[str, str] | None = None,
        tenant: str = TENANT,
    ) -> Job:
        """Deliver an event, as `POST /v1/tenants/{t}/events:batch` does; returns its job.

        `payload` is the body: bytes as they are, or any JSON. `job` is the job type, where no
        topology says it; an application with one type needs none. `key` is the dedup key, a hash
        of the payload where none is given: the same event again is the same job.

        Raises:
            ConfigError: no route matches, or `job` is missing, unknown or too much.
            Refused: the operator's API would refuse the event.
        """
        made = admission.event(
            event_type, payload, source, key, subject, occurred_at, attributes or {}, tenant
        )
        named = self._only_type() if job is None else self._known(job)
        return Job(self._behind.door.deliver(made, named), self._behind)

    @beside_loop
    def deliver(
        self,
        event_type: str,
        payload: object = None,
        *,
        source: str = "test",
        key: str | None = None,
        subject: str | None = None,
        occurred_at: datetime | None = None,
        attributes: Mapping[str, str] | None = None,
        tenant: str = TENANT,
    ) -> Job | None:
        """Deliver an event that jobs wait for; returns its own job, if a route gives it one.

        Raises:
            Refused: as `event`.
        """
        made = admission.event(
            event_type, payload, source, key, subject, occurred_at, attributes or {}, tenant
        )
        job_id = self._behind.door.admit(made)
        self._behind.flow.settle()
        self._behind.raise_fault()
        return None if job_id is None else Job(job_id, self._behind)

    @beside_loop
    def submit(
        self,
        type: str,
        input: object = None,
        *,
        key: str | None = None,
        priority: str | None = None,
        delay_seconds: float | None = None,
        timeout_seconds: float | None = None,
        tenant: str = TENANT,
    ) -> Job:
        """Submit a job, as `POST /v1/tenants/{t}/jobs` does; `input` is any JSON.

        Raises:
            ConfigError: the application has no such job type.
            Refused: the operator's API would refuse it.
        """
        given = {} if input is None else input
        schema = self._application.jobs[self._known(type)].types.input_schema
        job_id = self._behind.door.submit(
            type, given, key, priority, delay_seconds, timeout_seconds, schema, tenant
        )
        return Job(job_id, self._behind)

    def scheduled(self, schedule_id: str, *, tenant: str = TENANT) -> list[Job]:
        """The jobs that a schedule has made so far, in the order of its times."""
        found = self._behind.pipeline.scheduled(tenant, schedule_id)
        return [Job(record.job_id, self._behind) for record in found]

    def fake(
        self,
        tool: str,
        *,
        returns: object = None,
        raises: BaseException | type[BaseException] | None = None,
        in_turn: Sequence[object] = (),
        calls: Callable[..., object] | None = None,
        takes: float = 0.0,
    ) -> None:
        """Answer in place of a tool, or of one action of it (`tool/key`), from now on.

        Give one of: `returns`, a JSON value; `raises`, an error; `in_turn`, values and errors of
        which each call takes the next and the last one repeats; `calls`, a function with the
        parameters of the tool's own. `takes` are the virtual seconds that each call takes.

        Raises:
            ConfigError: more than one answer is given.
        """
        one = [(answer,) for answer in (returns, raises, calls) if answer is not None]
        answers: list[Sequence[object]] = [*one, in_turn] if in_turn else [*one]
        if len(answers) > 1:
            raise ConfigError(
                f"fake of {tool!r}: give one of returns, raises, in_turn and calls, not several"
            )
        self._behind.tools.fake(tool, Fake(answers[0] if answers else (None,), takes))

    def credential(
        self,
        name: str,
        value: str = "",
        *,
        raises: BaseException | None = None,
        tenant: str | None = None,
        seconds: float = 60.0,
        takes: float = 0.0,
    ) -> None:
        """Answer in place of a credential's provider, from now on; for one tenant, or for all.

        Give the `value` or what it `raises`, such as `PermanentError("revoked")`. A worker keeps a
        value for `seconds`, and then asks again. `takes` are the virtual seconds of each answer.

        Raises:
            ConfigError: neither is given, or both are.
        """
        if bool(value) == (raises is not None):
            raise ConfigError(f"credential {name!r}: give its value, or what its provider raises")
        fake = FakeCredential(raises or value, seconds, takes)
        self._behind.credentials.fake(name, tenant, fake)

    @beside_loop
    def advance(self, seconds: float) -> None:
        """Let virtual time pass, with whatever happens meanwhile."""
        self._behind.flow.advance(seconds)
        self._behind.raise_fault()

    @beside_loop
    def crash_worker(self) -> None:
        """Kill the worker's process, as SIGKILL does, and start it again under its name.

        What ran in it runs no further line. The new process is heard of with the next call that
        lets something happen.
        """
        self._behind.crash_worker()

    @beside_loop
    def deploy(self, app: App) -> None:
        """Kill the worker's process, and start one with another application, as of a new release.

        Raises:
            ConfigError: the application cannot be used; it says why.
        """
        app.check_effects()
        self._application = app
        self._behind.deploy(app)

    @beside_loop
    def disconnect(self) -> None:
        """Cut the worker off from the pipeline: nothing reaches it, and nothing of it arrives.

        After 25 s it starts nothing more; after 30 s its leases are over.
        """
        if self._behind.flow.worker is not None:
            self._behind.flow.worker.cut()

    @beside_loop
    def connect(self) -> None:
        """Let the worker reach the pipeline again; what it had to say is said now."""
        if self._behind.flow.worker is not None:
            self._behind.flow.worker.mend()
            self._behind.flow.settle()

    def _known(self, type_: str) -> str:
        if type_ not in self._application.jobs:
            known = ", ".join(self._application.jobs) or "none"
            raise ConfigError(
                f"app {self._application.name!r} has no job type {type_!r}; its types: {known}"
            )
        return type_

    def _only_type(self) -> str | None:
        types = list(self._application.jobs)
        return types[0] if len(types) == 1 and self._behind.door.jobs_are_named else None
