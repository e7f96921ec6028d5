"""`EmbeddedKafka`: a real Kafka of one node as a child process of this one.

Guarantee (G1): records acknowledged with `acks=all` survive a killed broker process. They may not
survive a power failure, since Kafka does not flush each record to disk.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from streams.broker import diagnosis, ports
from streams.broker.config import BrokerSecurity, controller_properties, render, server_properties
from streams.broker.datadir import DataDir, Instance, new_cluster_id, write_atomically
from streams.broker.fencing import await_fenced, metadata_log
from streams.broker.jars import ensure_jars, kafka_version
from streams.broker.java import environment, format_command, server_command
from streams.broker.process import KeptProcess
from streams.broker.status import status_file, status_text
from streams.errors import BrokerError

_FORMAT_SECONDS = 60.0
_POLL_SECONDS = 0.025


class EmbeddedKafka:
    """One broker on one data directory; it listens on 127.0.0.1 only.

    `port` 0 picks a free port once and uses it again at every later start while it is free. The
    child ends with this process, even if this one is killed; `detached` lets it stay. `heap_mb` is
    the JVM's heap in MiB; `extra` adds or overrides server settings.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        controller_port: int = 0,
        *,
        heap_mb: int = 256,
        security: BrokerSecurity | None = None,
        extra: Mapping[str, str] = MappingProxyType({}),
        detached: bool = False,
    ) -> None:
        self._dir = DataDir(data_dir)
        self._ports = (port, controller_port)
        self._heap_mb = heap_mb
        self._security = security
        self._extra = dict(extra)
        self._detached = detached
        self._instance: Instance | None = None
        self._process: KeptProcess | None = None

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`; the same before, during and after a restart."""
        if self._instance is None:
            raise BrokerError("the embedded broker has no address yet: start it first")
        return f"{ports.HOST}:{self._instance.port}"

    @property
    def client_settings(self) -> dict[str, str]:
        """A librdkafka client's settings beside `bootstrap.servers`; empty without security."""
        return self._security.client_settings if self._security else {}

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, or None when it does not run."""
        return self._process.pid if self._process and self.running else None

    @property
    def running(self) -> bool:
        """Whether the JVM lives; it says nothing about the broker's health."""
        return self._process is not None and self._process.running

    def start(self, timeout: float = 60.0) -> Self:
        """Start and return once the broker answers a metadata request, within `timeout` seconds.

        The first start on a machine fetches Kafka's jars (45 MB), and that time is not counted. A
        restart first has the controller drop the former broker (`fencing`).

        Raises:
            BrokerError: says what is wrong and what to do: a taken port, a full disk, a directory
            in use or damaged, a refused download, a server that ended or stayed silent.
            ConfigError: `extra` sets what the embedded broker decides itself.
        """
        jars = ensure_jars()
        self._dir.prepare()
        with self._dir.claimed() as lock:
            self._process = None  # the former process has ended: the directory was free
            self._dir.clear_temporary()
            self._instance = self._settle(self._dir.load())
            properties = self._write("server.properties", self._properties(self._instance))
            restart = self._dir.formatted
            if not restart:
                self._format(jars, properties, lock, self._instance)
            deadline = time.monotonic() + timeout
            if restart:
                self._fence_former(jars, lock, self._instance, deadline)
            self._launch(jars, properties, lock, self._instance, deadline)
        return self

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
        """Let a detached broker stay when this process ends; this object no longer stops it."""
        if self._process and self._detached:
            self._process.release()
            self._process = None

    def wait(self, timeout: float | None = None) -> int | None:
        """Block until the broker ends; its exit code, or None after `timeout` seconds."""
        return self._process.wait(timeout) if self._process else None

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _settle(self, known: Instance | None) -> Instance:
        """Identity and ports of this start: those asked for, else the former, else free ones."""
        asked, asked_controller = self._ports
        former = known or Instance(new_cluster_id(), 0, 0)
        port = ports.require_free(asked) if asked else _former_or_free(former.port)
        if asked_controller:
            controller = ports.require_free(asked_controller)
        else:
            controller = _former_or_free(former.controller_port, avoid=port)
        instance = Instance(former.cluster_id, port, controller)
        self._dir.save(instance)
        return instance

    def _properties(self, instance: Instance) -> dict[str, str]:
        return server_properties(
            self._dir.data, instance.port, instance.controller_port, self._security, self._extra
        )

    def _write(self, name: str, properties: Mapping[str, str]) -> Path:
        return self._dir.write_properties(name, render(properties))

    def _format(
        self, jars: tuple[Path, ...], properties: Path, lock: int, instance: Instance
    ) -> None:
        done = subprocess.run(  # noqa: S603 - our own Java
            format_command(jars, properties, instance.cluster_id),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment(), timeout=_FORMAT_SECONDS, check=False, pass_fds=(lock,),
        )  # fmt: skip
        if done.returncode != 0:
            log = done.stdout.decode(errors="replace")
            attempt = diagnosis.Attempt(self._dir.root, instance.port, log)
            raise diagnosis.explain(attempt, f"Kafka cannot format {self._dir.data}")

    def _fence_former(
        self, jars: tuple[Path, ...], lock: int, instance: Instance, deadline: float
    ) -> None:
        alone = controller_properties(self._properties(instance))
        properties = self._write("controller.properties", alone)
        logged = diagnosis.size_of(self._dir.server_log)
        before = metadata_log(self._dir.data)
        controller = KeptProcess.start(
            server_command(jars, self._dir.kafka, self._heap_mb, properties),
            lock_fd=lock, output=self._dir.jvm_log,
        )  # fmt: skip
        try:
            log = partial(diagnosis.read_since, self._dir.server_log, logged)
            fenced = await_fenced(controller, self._dir.data, before, log, deadline)
        finally:
            controller.kill()
        if not fenced:
            raise self._explain(instance, logged, "Kafka's controller does not start")

    def _launch(
        self, jars: tuple[Path, ...], properties: Path, lock: int, instance: Instance,
        deadline: float,
    ) -> None:  # fmt: skip
        logged = diagnosis.size_of(self._dir.server_log)
        self._process = KeptProcess.start(
            server_command(jars, self._dir.kafka, self._heap_mb, properties),
            lock_fd=lock, output=self._dir.jvm_log, detached=self._detached,
        )  # fmt: skip
        try:
            self._await_ready(instance, deadline, logged)
            text = status_text(self.bootstrap, self._process.pid, kafka_version())
            write_atomically(status_file(self._dir.root), text)
        except BaseException:
            self._process.kill()
            raise

    def _await_ready(self, instance: Instance, deadline: float, logged: int) -> None:
        assert self._process is not None  # noqa: S101 - the caller just set it
        while not self._answers(instance):
            if self._process.ended_within(_POLL_SECONDS):
                code = self._process.wait()
                raise self._explain(instance, logged, f"Kafka ended with exit code {code}")
            if time.monotonic() > deadline:
                raise self._explain(instance, logged, "Kafka did not become ready in time")

    def _answers(self, instance: Instance) -> bool:
        """Whether this very cluster answers a metadata request at our address."""
        if not ports.accepts(instance.port):
            return False
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        client = AdminClient(
            {"bootstrap.servers": self.bootstrap, "log_level": 0, **self.client_settings}
        )
        try:
            metadata = client.list_topics(timeout=1.0)
        except KafkaException:
            return False
        return bool(metadata.brokers) and metadata.cluster_id == instance.cluster_id

    def _explain(self, instance: Instance, logged: int, what: str) -> BrokerError:
        log = diagnosis.read_since(self._dir.jvm_log, 0)
        log += diagnosis.read_since(self._dir.server_log, logged)
        return diagnosis.explain(diagnosis.Attempt(self._dir.root, instance.port, log), what)

    def _forget(self) -> None:
        self._process = None
        status_file(self._dir.root).unlink(missing_ok=True)


def _former_or_free(former: int, avoid: int = 0) -> int:
    if former and former != avoid and ports.is_free(former):
        return former
    return ports.pick_free(frozenset({avoid}))
