"""The whole pipeline on one machine: broker, topics, every stage, one public port."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from ingress.http.public_port import BACKLOG, handed_down
from streams.broker.embedded import EmbeddedKafka
from streams.broker.ports import HOST
from streams.broker.status import read_status
from streams.dev.broker import SupervisedBroker
from streams.dev.credentials import Credentials, credentials
from streams.dev.data_dir_lock import claimed, write_state
from streams.dev.gateway import Front, serve
from streams.dev.layout import (
    Layout,
    Member,
    environment,
    held,
    members,
    owners,
    public_address,
    waves,
)
from streams.dev.output import Output
from streams.dev.supervisor import NAME, Supervisor
from streams.dev_state import read_state
from streams.errors import ConfigError
from streams.settings import Settings

_LEFTOVER_SECONDS = 25.0
_PORT_SECONDS = 5.0
"""How long to wait for a port that a killed pipeline's ingress still holds for a moment."""
_POLL_SECONDS = 0.1


class Pipeline:
    """`async with Pipeline(...)` enters when every process is ready and leaves when all are gone.

    With `settings.bootstrap` left at its default it starts its own broker. `app` is the workers'
    application, `env` is added to every process's environment, and `ingress_env` to the
    ingresses' alone. `console` gets every line that they write, `progress` each step of the start
    and of the end.
    `allow_unsafe` accepts a given cluster of fewer than three brokers. While it runs,
    `<data_dir>/dev.json` has pids and ports (`data_dir_lock.py`).

    Raises, on entering:
        ConfigError: the data directory or port is in use, the topology is wrong, or a process
            refuses to start.
        BrokerError: the embedded broker cannot start.
    """

    settings: Settings
    credentials: Credentials
    url: str

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        *,
        app: str,
        env: Mapping[str, str] = MappingProxyType({}),
        console: Callable[[str], None] | None = None,
        allow_unsafe: bool = False,
        progress: Callable[[str], None] = lambda _text: None,
        ingress_env: Mapping[str, str] = MappingProxyType({}),
        command: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.members: tuple[Member, ...] = members(layout)
        self._layout = layout.name
        self.broker: SupervisedBroker | None = None
        self.supervisor: Supervisor | None = None
        self._app = app
        self._command = command
        self._allow_unsafe = allow_unsafe
        self._progress = progress
        self._env = dict(env)
        self._ingress_env = dict(ingress_env)
        self._output = Output(settings.data_dir / "logs", console)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    def pid(self, name: str) -> int | None:
        """Process id of a member, such as `worker-0`; None while it is down."""
        return self.supervisor.pids.get(name) if self.supervisor else None

    def kill(self) -> None:
        """End every stage at once, without warning; the broker ends with this process."""
        if self.supervisor:
            self.supervisor.kill()

    async def _start(self) -> None:
        killed_before = bool(read_state(self.settings.data_dir))
        self._stack.enter_context(claimed(self.settings.data_dir))
        self._stack.callback(self._output.close)
        await self._open_front(_PORT_SECONDS if killed_before else 0.0)
        self.credentials = credentials(self.settings)
        if killed_before:
            await _leftover_broker_gone(self.settings.data_dir)
        with held(self.members):
            await self._start_broker()
            await self._apply_topology()
            self._progress(f"Kafka answers at {self.settings.bootstrap}")
            await self._carry_over()
        self._progress(f"the topics are there; starting {', '.join(m.name for m in self.members)}")
        await self._start_stages()

    async def _open_front(self, patience: float) -> None:
        """Open the public port for the ingress processes, and one for all that is no hook."""
        listener = await listen_within(patience, self.settings.host, self.settings.port)
        public = self._stack.enter_context(listener)
        self.url = f"http://{self.settings.host}:{public.getsockname()[1]}"
        rest = self._stack.enter_context(listen(HOST, 0))
        runner = await serve(Front(self.members), rest)
        self._stack.push_async_callback(runner.cleanup)
        self._env |= handed_down(public, f"http://{HOST}:{rest.getsockname()[1]}")
        self._env |= public_address(self.settings, self.url)

    async def _start_broker(self) -> None:
        if "bootstrap" in self.settings.model_fields_set:
            return
        kafka = EmbeddedKafka(self.settings.data_dir)
        self.broker = SupervisedBroker(kafka, self._say, self._tell_state)
        self._stack.push_async_callback(self.broker.stop)
        self._stack.callback(self._progress, "stopping Kafka")
        await self.broker.start()
        self.settings = self.settings.model_copy(update={"bootstrap": self.broker.bootstrap})

    async def _apply_topology(self) -> None:
        from streams.topology.apply import apply
        from streams.topology.load import load
        from streams.topology.plan import Consent

        ours = self.broker is not None
        consent = Consent(unsafe=self._allow_unsafe or ours, shorter_retention=ours)
        await asyncio.to_thread(apply, load(self.settings.topology), self.settings, consent)

    async def _carry_over(self) -> None:
        """Go on from where the stages of the other layout stopped, if they ran before."""
        from streams.kafka.admin import admin_client
        from streams.runtime.layouts import carry_over
        from streams.topology.load import load

        topology, admin = load(self.settings.topology), admin_client(self.settings)
        moved = await asyncio.to_thread(carry_over, self._layout, topology, self.settings, admin)
        if moved:
            self._say(f"the stages run {self._layout} from now on: their positions were moved")

    async def _start_stages(self) -> None:
        env = environment(self.settings, {**self.credentials.environment(), **self._env})
        self.supervisor = Supervisor(
            waves(self.members, self.settings, self._app, env, self._ingress_env),
            self._output,
            changed=self._tell_state,
            progress=self._progress,
        )
        self._stack.push_async_callback(self.supervisor.stop)
        self.supervisor.start()
        await self.supervisor.ready()

    def _say(self, text: str) -> None:
        self._output.line(NAME, text)

    def _tell_state(self) -> None:
        try:
            write_state(self.settings.data_dir, self._state())
        except OSError as error:  # a full disk must not end the supervisor
            self._say(f"cannot write dev.json: {error.strerror}")

    def _state(self) -> dict[str, Any]:
        pids = self.supervisor.pids if self.supervisor else {}
        return {
            "pid": os.getpid(),
            "url": self.url,
            "command": list(self._command),
            "directory": os.getcwd(),
            "bootstrap": self.settings.bootstrap,
            "topology": self.settings.topology and str(self.settings.topology.absolute()),
            "topic_prefix": self.settings.topic_prefix,
            "broker_pid": self.broker.pid if self.broker else None,
            "link": owners(self.members),
            "processes": [
                {
                    "name": member.name,
                    "stage": member.stage,
                    "instance": member.label,
                    "pid": pids.get(member.name),
                    "port": member.port,
                }
                for member in self.members
            ],
        }


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, opened before anything else is started: early connections wait.

    Raises:
        ConfigError: the port is taken, or the address is not this machine's.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another port with --port"
        ) from error
    return listener


async def listen_within(seconds: float, host: str, port: int) -> socket.socket:
    """`listen`, on a port that may stay taken for that many seconds.

    Raises:
        ConfigError: the port is still taken, or the address is not this machine's.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return listen(host, port)
        except ConfigError:
            if time.monotonic() >= until:
                raise
        await asyncio.sleep(_POLL_SECONDS)


async def _leftover_broker_gone(data_dir: Path) -> None:
    """Wait for a killed pipeline's broker: it ends by itself, but takes a moment."""
    deadline = asyncio.get_running_loop().time() + _LEFTOVER_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        if (await asyncio.to_thread(read_status, data_dir)).pid is None:
            return
        await asyncio.sleep(_POLL_SECONDS)
