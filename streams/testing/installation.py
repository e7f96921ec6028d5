"""What stands behind one bench: the pipeline, the way in, and the worker's process."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack

from streams.testing.admission import Admission
from streams.testing.crash_points import Crash
from streams.testing.credentials import FakeCredentials
from streams.testing.flow import Flow
from streams.testing.link import Watch
from streams.testing.memory_store import MemoryStore
from streams.testing.observed_app import Observer
from streams.testing.people import People
from streams.testing.pipeline_in_memory import PipelineInMemory
from streams.testing.plain_logs import plain_logs
from streams.testing.points import Points
from streams.testing.refused import Unprovided
from streams.testing.stops import Stops
from streams.testing.tools import Tools
from streams.testing.values import Call
from streams.testing.worker_process import Surroundings, WorkerProcess
from streams.topology.model import Topology
from streams.vault.key_encryption import KEY_BYTES, local_vault
from streams.vault.keyring import DataKeyring
from streams.worker.app import App
from streams.worker.schedules import ALL_TENANTS

TENANT = "acme"
"""The tenant of a bench's jobs and events, unless a call names another one."""
_BURIAL_SECONDS = 2.0


class Installation:
    """Tidegate in memory around one application, with one worker process at a time."""

    def __init__(
        self, app: App, topology: Topology, crash: Crash | None, *, strict: bool, patience: float
    ) -> None:
        vault = local_vault(secrets.token_bytes(KEY_BYTES))
        keyring = DataKeyring(vault)
        self.leases = topology.leases
        self.pipeline = PipelineInMemory(topology)
        self.flow = Flow(self.pipeline, patience)
        self.door = Admission(self.pipeline, topology, vault, keyring)
        self.people = People(self.pipeline, keyring)
        self.stops = Stops()
        self.stops.changed = self._stand
        self.tools = Tools(strict, self.pipeline.seconds, self.stops)
        self.store = MemoryStore()
        self.keyring = keyring
        self.credentials = FakeCredentials(topology, self.tools, strict=strict)
        self.points = Points(crash, self.pipeline)
        self.points.kill = self._die
        self.flow.died = self.crash_worker
        self.observer = Observer(self.tools, self.stops, self.points)
        self._app = self._observed(app)
        self._around = Surroundings(
            topology,
            self.pipeline,
            keyring,
            self.pipeline.seconds,
            Watch(self.points.sent, self.points.leased),
            self.credentials,
            self.store,
        )
        self._processes: list[WorkerProcess] = []
        self._logs = ExitStack()
        self._logs.enter_context(plain_logs())
        self.start_worker()
        self.flow.settle()

    def start_worker(self) -> None:
        """Start a worker process; it is heard of when something is let happen."""
        process = WorkerProcess(self._app, self._around)
        self._processes.append(process)
        self.flow.worker = process

    def kill_worker(self) -> None:
        """End the worker process as SIGKILL does."""
        if self.flow.worker is not None:
            self.flow.worker.kill()
        self.flow.worker = None
        self.stops.forget()

    def crash_worker(self) -> None:
        """Kill the worker process, and start it again under its name."""
        self.kill_worker()
        self.start_worker()

    def deploy(self, app: App) -> None:
        """Kill the worker process, and start one with another application."""
        self.kill_worker()
        self._app = self._observed(app)
        self.start_worker()

    def close(self) -> None:
        """End every handler that still runs, and release what is held."""
        self.kill_worker()
        deadline = time.monotonic() + _BURIAL_SECONDS
        while self._processes:
            self._processes.pop().bury(deadline)
        self.door.close()
        self._logs.close()

    def happened(self) -> list[Call]:
        """What the calls of tools did, as `Job.happened` counts it."""
        return self.tools.happened({n: t.key_lifetime for n, t in self._app.tools.items()})

    def raise_fault(self) -> None:
        """Fail the test for what it did not provide for."""
        fault, self.tools.fault = self.tools.fault, None
        if fault is not None:
            raise Unprovided(fault)

    def _observed(self, app: App) -> App:
        """The application as it runs here; there are the tenants that its schedules name."""
        named = {each for one in app.declarations for each in one.tenants}
        self.pipeline.set_up(sorted({TENANT, *named} - {ALL_TENANTS}))
        return self.observer.app(app)

    def _die(self) -> None:
        """The worker process dies while things happen; `flow` finds it dead."""
        if self.flow.worker is not None:
            self.flow.worker.kill()

    def _stand(self, standing: bool) -> None:
        if self.flow.worker is not None:
            self.flow.worker.loop.standing = standing
