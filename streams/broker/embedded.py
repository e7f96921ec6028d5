"""`EmbeddedKafka`: a real Kafka node, alone or one of a cluster, as a child process of this one.

Guarantee (G1): records acknowledged with `acks=all` survive a killed broker process. They may not
survive a power failure, since Kafka does not flush each record to disk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from streams.broker import diagnosis, ports
from streams.broker.config import controller_properties, render, server_properties
from streams.broker.datadir import DataDir, Instance, new_cluster_id, write_atomically
from streams.broker.fencing import LoneController, await_fenced, lone_controller
from streams.broker.formatting import format_data
from streams.broker.jars import ensure_jars, kafka_version
from streams.broker.java import server_command
from streams.broker.member import NODE_ID, Member, alone
from streams.broker.process import KeptProcess
from streams.broker.readiness import serves
from streams.broker.status import status_file, status_text
from streams.errors import BrokerError

_POLL_SECONDS = 0.025


class EmbeddedKafka:
    """One broker on one data directory; it listens on 127.0.0.1 only.

    `port` 0 picks a free port once and uses it again at every later start while it is free. The
    child ends with this process, even if this one is killed, unless it is released. `member` makes
    it a node of a cluster (`streams.broker.cluster`), which decides its ports.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        *,
        member: Member | None = None,
    ) -> None:
        self._dir = DataDir(data_dir, member.node_id if member else NODE_ID)
        self._port = port
        self._given = member
        self._member: Member | None = member
        self._process: KeptProcess | None = None

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`; the same before, during and after a restart."""
        if self._member is None:
            raise BrokerError("the embedded broker has no address yet: start it first")
        return f"{ports.HOST}:{self._member.reached_at[self._member.node_id].clients}"

    @property
    def client_settings(self) -> dict[str, str]:
        """A librdkafka client's settings beside `bootstrap.servers`: it needs none."""
        return {}

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, or None when it does not run."""
        return self._process.pid if self._process and self.running else None

    @property
    def formatted(self) -> bool:
        """Whether its directory has held a broker."""
        return self._dir.formatted

    @property
    def running(self) -> bool:
        """Whether the JVM lives; it says nothing about the broker's health."""
        return self._process is not None and self._process.running

    def start(self, timeout: float = 180.0) -> Self:
        """Start and return once the broker answers a metadata request, within `timeout` seconds.

        The first start on a machine fetches Kafka's jars (45 MB), and that time is not counted. A
        restart of a lone node first has the controller drop the former broker (`fencing`).

        Raises:
            BrokerError: says what is wrong and what to do: a taken port, a full disk, a directory
            in use or damaged, a refused download, a server that ended or stayed silent.
        """
        ensure_jars()
        with self._claimed() as lock:
            restart = self._dir.formatted
            member = self._prepare(lock)
            deadline = time.monotonic() + timeout
            if restart and self._given is None:
                self._fence_former(member, lock, deadline)
            self._launch(member, lock, deadline)
        return self

    @contextmanager
    def controller(self) -> Iterator[LoneController]:
        """Run the node's controller without its broker; raises like `start`."""
        with self._claimed() as lock, self._controller(self._prepare(lock), lock) as running:
            yield running

    def stop(self) -> None:
        """Stop in an orderly way, kill after 20 s; returns when the process is gone."""
        if self._process:
            self._process.stop()
            self._forget()

    def kill(self) -> None:
        """SIGKILL the broker, as a crash would end it; `start` brings it back with its data."""
        if self._process:
            self._process.kill()
            self._forget()

    def release(self) -> None:
        """Let the broker stay when this process ends; this object no longer stops it."""
        if self._process:
            self._process.release()
            self._process = None

    def wait(self, timeout: float | None = None) -> int | None:
        """Block until the broker ends; its exit code, or None after `timeout` seconds."""
        return self._process.wait(timeout) if self._process else None

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextmanager
    def _claimed(self) -> Iterator[int]:
        self._dir.prepare()
        with self._dir.claimed() as lock:
            self._process = None  # the former process has ended: the directory was free
            self._dir.clear_temporary()
            yield lock

    def _prepare(self, lock: int) -> Member:
        """Settle identity and ports, write the settings, and format an empty directory."""
        self._member = member = self._settle(self._dir.load())
        self._dir.save(Instance(member.cluster_id, member.ports.clients, member.ports.controller))
        properties = self._write("server.properties", self._properties(member))
        if not self._dir.formatted:
            format_data(self._dir, ensure_jars(), properties, lock, member)
        return member

    def _settle(self, known: Instance | None) -> Member:
        """Identity and ports of this start: those asked for, else the former, else free ones."""
        if self._given:
            for port in set(vars(self._given.ports).values()):
                ports.require_free(port)
            return self._given
        asked, former = self._port, known or Instance(new_cluster_id(), 0, 0)
        port = ports.require_free(asked) if asked else ports.former_or_free(former.port)
        controller = ports.former_or_free(former.controller_port, frozenset({port}))
        return alone(former.cluster_id, port, controller)

    def _properties(self, member: Member) -> dict[str, str]:
        return server_properties(self._dir.data, member)

    def _write(self, name: str, properties: Mapping[str, str]) -> Path:
        return self._dir.write_properties(name, render(properties))

    @contextmanager
    def _controller(self, member: Member, lock: int) -> Iterator[LoneController]:
        alone = controller_properties(self._properties(member))
        command = self._command(self._write("controller.properties", alone))
        with lone_controller(self._dir, command, lock) as running:
            yield running

    def _fence_former(self, member: Member, lock: int, deadline: float) -> None:
        logged = diagnosis.size_of(self._dir.server_log)
        with self._controller(member, lock) as controller:
            fenced = await_fenced([controller], deadline)
        if not fenced:
            raise self._explain(member, logged, "Kafka's controller does not start")

    def _launch(self, member: Member, lock: int, deadline: float) -> None:
        logged = diagnosis.size_of(self._dir.server_log)
        self._process = KeptProcess.start(
            self._command(self._dir.kafka / "server.properties"),
            lock_fd=lock,
            output=self._dir.jvm_log,
        )
        try:
            self._await_ready(member, deadline, logged)
            text = status_text(self.bootstrap, self._process.pid, kafka_version())
            write_atomically(status_file(self._dir.root), text)
        except BaseException:
            self._process.kill()
            raise

    def _command(self, properties: Path) -> list[str]:
        return server_command(ensure_jars(), self._dir.kafka, properties)

    def _await_ready(self, member: Member, deadline: float, logged: int) -> None:
        assert self._process is not None  # noqa: S101 - the caller just set it
        while not serves(member, self.client_settings):
            if self._process.ended_within(_POLL_SECONDS):
                code = self._process.wait()
                raise self._explain(member, logged, f"Kafka ended with exit code {code}")
            if time.monotonic() > deadline:
                raise self._explain(member, logged, "Kafka did not become ready in time")

    def _explain(self, member: Member, logged: int, what: str) -> BrokerError:
        log = diagnosis.read_since(self._dir.jvm_log, 0)
        log += diagnosis.read_since(self._dir.server_log, logged)
        return diagnosis.explain(diagnosis.Attempt(self._dir.root, member.ports.clients, log), what)

    def _forget(self) -> None:
        self._process = None
        status_file(self._dir.root).unlink(missing_ok=True)
