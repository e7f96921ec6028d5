"""`Bench`: an application's jobs from event to end, in memory and on a virtual clock."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Self

from streams.errors import ConfigError
from streams.testing import admission
from streams.testing.beside_loop import beside_loop
from streams.testing.flow import Flow
from streams.testing.job import Job, JobParts
from streams.testing.observed_app import Observer
from streams.testing.pipeline_in_memory import PipelineInMemory
from streams.testing.plain_logs import plain_logs
from streams.testing.routing import routed_by_caller, routed_by_file
from streams.testing.stops import Stops
from streams.testing.tools import Fake, Tools
from streams.testing.values import Call
from streams.testing.worker_process import Surroundings, WorkerProcess
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring
from streams.worker.app import App

_TENANT = "acme"
_PATIENCE_SECONDS = 30.0
_BURIAL_SECONDS = 2.0


class Bench:
    """The product's own pipeline and worker around an application, without Kafka.

    With `topology`, its routes give events their jobs, and its pools, attempts and timeouts hold;
    without, each event names its job type. A `strict` bench calls no tool that has no fake.
    `patience` is how many real seconds one call of the bench may take. Use it as a context
    manager, or `close` it.

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
    ) -> None:
        app.check_effects()
        wiring = routed_by_caller() if topology is None else routed_by_file(Path(topology))
        cluster_key, vault = secrets.token_bytes(32), local_vault(secrets.token_bytes(32))
        self._application = app
        self._held = ExitStack()
        self._pipeline = PipelineInMemory(wiring, cluster_key)
        self._flow = Flow(self._pipeline, wiring.leases.heartbeat_seconds, patience)
        self._stops = Stops()
        self._stops.changed = self._stand
        self._tools = Tools(strict, self._pipeline.seconds, self._stops)
        observer = Observer(self._tools, self._stops)
        keyring = DataKeyring(vault)
        self._around = Surroundings(
            wiring, cluster_key, keyring, self._pipeline.seconds,
            self._flow.from_worker.append, lambda: self._pipeline.output("payloads"),
        )  # fmt: skip
        self._door = admission.Admission(self._pipeline, wiring, vault, keyring)
        self._observed = observer.app(app)
        self._processes: list[WorkerProcess] = []
        self._parts = JobParts(
            self._pipeline, self._flow, self._tools, self._stops, observer, wiring.leases,
            self.crash_worker,
        )  # fmt: skip
        self._held.enter_context(plain_logs())
        self._start_worker()
        self._flow.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @beside_loop
    def close(self) -> None:
        """End every handler that still runs, and release what the bench holds."""
        deadline = time.monotonic() + _BURIAL_SECONDS
        for process in self._processes:
            process.kill()
            process.bury(deadline)
        self._processes.clear()
        self._flow.worker = None
        self._door.close()
        self._held.close()

    @property
    def seconds(self) -> float:
        """The virtual seconds since the bench began."""
        return self._pipeline.seconds()

    @property
    def calls(self) -> list[Call]:
        """Every call of a tool's function, or of its fake, in the order in which they were made."""
        return list(self._tools.calls)

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
        tenant: str = _TENANT,
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
        return Job(self._door.deliver(made, named), self._parts)

    @beside_loop
    def submit(
        self,
        type: str,
        input: object = None,
        *,
        key: str | None = None,
        delay_seconds: float | None = None,
        timeout_seconds: float | None = None,
        tenant: str = _TENANT,
    ) -> Job:
        """Submit a job, as `POST /v1/tenants/{t}/jobs` does; `input` is any JSON.

        Raises:
            ConfigError: the application has no such job type.
            Refused: the operator's API would refuse it.
        """
        given = {} if input is None else input
        job_id = self._door.submit(
            self._known(type), given, key, delay_seconds, timeout_seconds, tenant
        )
        return Job(job_id, self._parts)

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
        given: list[Sequence[object]] = []
        if returns is not None:
            given.append((returns,))
        if raises is not None:
            given.append((raises,))
        if calls is not None:
            given.append((calls,))
        if in_turn:
            given.append(in_turn)
        if len(given) > 1:
            raise ConfigError(
                f"fake of {tool!r}: give one of returns, raises, in_turn and calls, not several"
            )
        self._tools.fake(tool, Fake(given[0] if given else (None,), takes))

    @beside_loop
    def advance(self, seconds: float) -> None:
        """Let virtual time pass, with whatever happens meanwhile."""
        self._flow.advance(seconds)
        self._parts.raise_fault()

    @beside_loop
    def crash_worker(self) -> None:
        """Kill the worker's process, as SIGKILL does, and start it again under its name.

        What ran in it runs no further line. The new process is heard of with the next call that
        lets something happen.
        """
        if self._flow.worker is not None:
            self._flow.worker.kill()
        self._stops.forget()
        self._start_worker()

    @beside_loop
    def disconnect(self) -> None:
        """Cut the worker off from Kafka: nothing reaches it, and nothing of it arrives.

        After 25 s it starts nothing more; after 30 s its leases are over.
        """
        if self._flow.worker is not None:
            self._flow.worker.cut()

    @beside_loop
    def connect(self) -> None:
        """Let the worker reach Kafka again; what it had to say is said now."""
        if self._flow.worker is not None:
            self._flow.worker.mend()
            self._flow.worker.beat()
            self._flow.settle()

    def _start_worker(self) -> None:
        self._flow.replies_begin()
        process = WorkerProcess(self._observed, self._around)
        self._processes.append(process)
        self._flow.worker = process

    def _stand(self, standing: bool) -> None:
        if self._flow.worker is not None:
            self._flow.worker.loop.standing = standing

    def _known(self, type_: str) -> str:
        if type_ not in self._application.jobs:
            known = ", ".join(self._application.jobs) or "none"
            raise ConfigError(
                f"app {self._application.name!r} has no job type {type_!r}; its types: {known}"
            )
        return type_

    def _only_type(self) -> str | None:
        types = list(self._application.jobs)
        return types[0] if len(types) == 1 and self._door.jobs_are_named else None
