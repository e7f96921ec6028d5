"""The stages and workers as processes with jobs to do, for tests of faults.

with JobsUnderLoad(kafka, tmp_path, fused=False) as jobs:
    jobs.strike("produced", "dispatcher")  # asks for jobs of all kinds; SIGKILL there meanwhile
    jobs.start("dispatcher")
    jobs.await_ends()                      # whatever nobody has to decide about has ended
    assert jobs.verdict() == []            # decides that, ends the processes, examines everything
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Self

from streams import pipeline
from streams.broker.ports import pick_free
from streams.runtime.stage import Stage
from streams.runtime.topics import Topics
from streams.serde.codec import COMMAND, ENVELOPE
from streams.serde.ids import (
    event_job_id,
    fingerprint,
    new_id,
    partition_for,
    replay_job_id,
    submitted_job_id,
)
from streams.serde.job_states import TERMINAL
from streams.serde.records import (
    Cancel,
    Command,
    CommandBody,
    Envelope,
    Move,
    PayloadRef,
    Replay,
    Reroute,
    Settle,
    Submit,
)
from streams.settings import load_settings
from streams.topology.load import load
from streams.topology.model import FUSED
from support.conditions import eventually
from support.dedup_verdict import Violation, copies, no_open_transaction, stores_as_changelogs
from support.faulty_process import FaultyProcess
from support.faulty_worker import HAPPENED, TIMEOUT
from support.jobs_verdict import (
    Asked,
    Calls,
    JobsReader,
    answered_in_order,
    as_asked,
    calls_in,
    done_once,
    letters,
    never_two,
)
from support.stage_process import Cluster

if TYPE_CHECKING:
    from support.kafka_under_test import KafkaUnderTest

TOPOLOGY = """
partitions: 2
pools: [{name: default}, {name: aside}]
job_types:
  - {name: parked, pool: aside}
  - {name: patient, waits_for: [{source: shop, event_type: answer}]}
leases: {term_seconds: 4, heartbeat_seconds: 0.5, margin_seconds: 1}
"""
ROUTES = "routes: [{match: {source: shop, event_type: order.created}, job: note}]\n"
"""What the first dispatcher lacks: the event of the first round is kept without a job."""

TIDEGATE = str(Path(sys.executable).with_name("tidegate"))
TENANTS = ("acme", "globex", "initech")
WORKERS = ("w1", "w2")
OWNERS = (FUSED, "dispatcher")
"""The processes that listen for workers; in each layout one of them runs."""
MAILS = frozenset({"note", "slow", "flaky", "parked", "patient"})
ENDS = {"hopeless": "failed", "endless": "cancelled"}
_PARKED_AFTER_MS = 2_500
"""Longer than a dispatcher looks away: it sees none parked between two, and so has to tell."""
_SETTLED_AFTER_MS = (TIMEOUT + 1) * 1000
"""A call may be under way for as long as its run may take."""


class JobsUnderLoad:
    """One test's topics under a prefix of their own; nobody works in the pool `aside`."""

    def __init__(self, kafka: KafkaUnderTest, folder: Path, *, fused: bool) -> None:
        self.folder = folder
        self.fused = fused
        self.asked: dict[str, Asked] = {}
        self.processes: list[FaultyProcess] = []
        self.named: dict[str, FaultyProcess] = {}
        self._round = 0
        self._undecided: dict[str, CommandBody] = {}
        self._unanswered: list[str] = []
        self._acquitted = False
        (folder / "key").write_bytes(b"k" * 32)
        (folder / "happened").touch()
        self._ports = _ports()
        self._topology_file = folder / "topology.yaml"
        self._topology_file.write_text(TOPOLOGY)
        self.topology = load(self._topology_file)
        self.cluster = Cluster(kafka, self.topology)
        self.cluster.create()
        self._reader = JobsReader(self.cluster)

    def __enter__(self) -> Self:
        for name in (*self.stages, *WORKERS):
            self.start(name)
        self._first = self.named[self.dispatcher]
        self._first.wait_for('"event": "running"')
        self._topology_file.write_text(TOPOLOGY + ROUTES)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            process.kill()
            if not self._acquitted:
                print(process.lines)
        if not self._acquitted:
            for job_id in self._open():
                print("open:", self._reader.jobs.get(job_id, job_id))
        self._reader.close()

    # Processes.

    @property
    def stages(self) -> tuple[str, ...]:
        """The processes of the stages, in the order of the flow."""
        return (FUSED,) if self.fused else self.topology.fused

    @property
    def dispatcher(self) -> str:
        """The process that dispatches."""
        return self.stages[-1]

    def switch(self) -> None:
        """Have the stages that were stopped or killed go on in the other layout."""
        self.fused = not self.fused
        layout = "fused" if self.fused else "apart"
        command = [TIDEGATE, "topology", "layout", layout]
        done = subprocess.run(
            command, env=os.environ | self._environ(""), capture_output=True, text=True, check=False
        )
        print(f"round {self._round}: {layout}: {done.stdout}{done.stderr}")
        assert done.returncode == 0
        for name in self.stages:
            self.start(name)

    def await_session_ends(self) -> None:
        """Until the groups of the stages, which have ended, have no members any more."""
        names = [self.cluster.prefix + name for name in self.stages]

        def empty() -> bool:
            described = self.cluster.admin.describe_consumer_groups(names).values()
            return all(not answer.result(10).members for answer in described)

        eventually(empty, what="the stages' sessions are over")

    def start(self, name: str) -> FaultyProcess:
        """One more process: a stage, or a worker under this name."""
        stage = name in (FUSED, *self.topology.fused)
        environ, program = self._environ(name), "job_stage" if stage else "faulty_worker"
        log = self.folder / f"{name}-{len(self.processes)}.log"
        self.named[name] = FaultyProcess(program, log, environ)
        self.processes.append(self.named[name])
        return self.named[name]

    def strike(
        self,
        step: str,
        *names: str,
        leaving: bool = False,
        ask: Callable[[], None] | None = None,
    ) -> list[str]:
        """SIGKILL at that step, while it works or, told by SIGTERM, leaves; who was struck.

        Of several processes it is the first that gets there, or more that do so at that moment.
        `ask` brings the work, unless it is that of each round.
        """
        processes = {name: self.named[name] for name in names}
        for name, process in processes.items():
            eventually(process.ready, what=f"{name} is ready")
            process.points.arm(step, signal.SIGKILL)
        (ask or self.ask)()
        if leaving:
            for process in processes.values():
                process.signal(signal.SIGTERM)
        eventually(
            lambda: any(process.points.landed for process in processes.values()),
            what=f"SIGKILL landed at {step}",
        )
        for process in processes.values():
            process.points.disarm()
        struck = [name for name, process in processes.items() if process.points.landed]
        for name in struck:
            assert processes[name].exit_code() == -signal.SIGKILL
            print(f"round {self._round}: {name} killed {processes[name].points.landed}")
        return struck

    def strike_restoring(self) -> None:
        """Take the dispatcher's disk away, and kill the process that rebuilds it."""
        shutil.rmtree(self.folder / "data/state" / self.dispatcher)
        landed = self.start(self.dispatcher).fault("restoring")
        print(f"round {self._round}: {self.dispatcher} killed {landed}")

    # What is asked.

    def ask(self) -> None:
        """Jobs of all kinds; of those of the last round, an operator decides what is open."""
        self.decide()
        self._round += 1
        for tenant in TENANTS:
            for type_ in ("note", "pay", "slow", "flaky"):
                self._submit(tenant, type_)
            self._answer_twice(tenant, self._submit(tenant, "patient"))
        self._submit("acme", "parked", delay_ms=_PARKED_AFTER_MS)
        self._replay("globex", self._submit("globex", "hopeless"))
        endless = self._submit("initech", "endless")
        self._command("initech", endless, Cancel("not needed", "ops"))
        self._event("globex", f"order-{self._round}")

    def ask_to_wait(self, count: int) -> None:
        """So many jobs of each tenant that wait; every other one has its answers before."""
        self.decide()
        self._round += 1
        for number in range(count):
            for tenant in TENANTS:
                job_id = self._submit(tenant, "patient", number=number)
                if number % 2:
                    self._answer_twice(tenant, job_id)
                else:
                    self._unanswered.append(job_id)

    def answer(self) -> None:
        """The jobs that were asked to wait get what they have not got yet."""
        for job_id in self._unanswered:
            self._answer_twice(self.asked[job_id].tenant, job_id)
        self._unanswered.clear()

    def decide(self) -> None:
        """An operator says what becomes of jobs and events that wait for one."""
        if self._undecided:
            self._roll_out()
        for job_id, body in self._undecided.items():
            self._command(self.asked[job_id].tenant, job_id, body)
        self._undecided.clear()
        self._settle()

    def await_ends(self) -> None:
        """Every job has ended, waits for a person, or for the next decisions."""

        eventually(lambda: not self._open(), what="every job has ended")

    def _open(self) -> set[str]:
        jobs = self._reader.look()
        ended = {j.job_id for j in jobs.values() if j.status in (*TERMINAL, "needs_review")}
        return self.asked.keys() - self._undecided.keys() - ended

    def _submit(self, tenant: str, type_: str, delay_ms: int | None = None, number: int = 0) -> str:
        """Sent twice, as by somebody who got no answer."""
        job_id = submitted_job_id(tenant, f"{type_}-{self._round}-{number}")
        body = Submit(type_, "null", None, None, None, None, None, "ops", b"h", None, delay_ms)
        self._command(tenant, job_id, body, times=2)
        self._expect(job_id, tenant, type_)
        if type_ == "parked":
            self._undecided[job_id] = Move("default", "somebody works there", "ops")
        return job_id

    def _replay(self, tenant: str, job_id: str) -> None:
        replay = replay_job_id(tenant, job_id, "again")
        self._expect(replay, tenant, "hopeless")
        self._undecided[replay] = Replay(job_id, "it may work now", False, "ops")

    def _event(self, tenant: str, key: str) -> None:
        """An event, and a redelivery of it."""
        event = _event(tenant, "order.created", key, key)
        job_id = event_job_id(tenant, "shop", key)
        for _ in range(2):
            self._receive(event)
        self._expect(job_id, tenant, "note")
        self._undecided[job_id] = Reroute(event.fingerprint, "it has a route now", "ops")

    def _answer_twice(self, tenant: str, job_id: str) -> None:
        """What a patient job waits for may come before it waits, and is delivered twice."""
        for number in (1, 2):
            event = _event(tenant, "answer", f"{job_id}-{number}", job_id)
            self._receive(event)
            self._receive(event)

    def _receive(self, event: Envelope) -> None:
        key, value = event.tenant_id.encode(), ENVELOPE.encode(event)
        self._send("events.received", event.tenant_id, key, value)

    def _roll_out(self) -> None:
        """Start the first dispatcher anew, if it still runs: the next one has the routes."""
        if self._first.alive:
            assert self._first.stop() == 0
            self.start(self.dispatcher)

    def _settle(self) -> None:
        """Say truly of each payment in review whether it was made."""
        now, calls = time.time() * 1000, self._calls()
        for job in self._reader.look().values():
            if job.status == "needs_review" and job.updated_at + _SETTLED_AFTER_MS < now:
                paid = bool(calls.get(("pay", job.job_id)))
                status, result = ("done", '"paid"') if paid else ("failed", None)
                body = Settle("pay/order", status, result, "asked the bank", "ops")  # type: ignore[arg-type]
                self._command(job.tenant_id, job.job_id, body)

    def _expect(self, job_id: str, tenant: str, type_: str) -> None:
        self.asked[job_id] = Asked(tenant, type_, ENDS.get(type_, "succeeded"))

    def _command(self, tenant: str, job_id: str, body: CommandBody, times: int = 1) -> None:
        now = round(time.time() * 1000)
        value = COMMAND.encode(Command(new_id("cmd"), tenant, job_id, 0, now, body))
        for _ in range(times):
            self._send("jobs.commands", tenant, tenant.encode(), value)

    def _send(self, topic: str, tenant: str, key: bytes, value: bytes) -> None:
        partition = partition_for(tenant, self.topology.partitions)
        self.cluster.send(topic, [(key, value)], partition)

    # What came of it.

    def verdict(self) -> list[Violation]:
        """Let all jobs end, stop the processes, and examine everything from outside."""
        self.decide()
        self.await_ends()
        eventually(self._reviewed, what="nothing is in review")
        found = self._stop()
        found += no_open_transaction(self.cluster, self.topology.topics, 20)
        jobs, lines = self._reader.look(), self._lines()
        found += as_asked(self.asked, jobs)
        found += done_once(self.asked, calls_in(lines), MAILS)
        found += never_two(lines)
        found += answered_in_order(self.asked, jobs)
        found += letters(self.cluster, jobs)
        for stage in pipeline.stage(self.topology).parts:
            found += self._stores(stage)
        self._acquitted = not found
        print(f"{len(self.asked)} jobs, {len(lines)} calls; violations: {found}")
        return found

    def _reviewed(self) -> bool:
        self._settle()
        statuses = {job.status for job in self._reader.look().values()}
        return "needs_review" not in statuses and statuses <= TERMINAL

    def _stop(self) -> list[Violation]:
        """SIGTERM to what lives: workers first, as they tell the dispatcher."""
        alive = [process for process in reversed(self.processes) if process.alive]
        codes = {process.pid: process.stop() for process in alive}
        return [
            Violation("unclean_stop", f"process {p}", code) for p, code in codes.items() if code
        ]

    def _stores(self, stage: Stage) -> list[Violation]:
        """Where stores and their changelogs differ; they are opened as copies."""
        found: list[Violation] = []
        with TemporaryDirectory() as scratch:
            shutil.copytree(self.folder / "data/state", Path(scratch) / "state")
            settings = load_settings({**self._environ(stage.name), "TIDEGATE_DATA_DIR": scratch})
            changelogs = Topics(self.cluster.admin, self.cluster.prefix).changelogs(stage)
            for spec in stage.stores:
                stores = [
                    copy
                    for name in (stage.name, FUSED)
                    for copy in copies(
                        [settings],
                        name,
                        spec,
                        changelogs[spec.changelog],
                        self.topology.partitions,
                    )
                ]
                read = self.cluster.read(spec.changelog)
                found += stores_as_changelogs(spec, stores, read)
        return found

    def _environ(self, name: str) -> dict[str, str]:
        both = {
            "TIDEGATE_TOPOLOGY": str(self._topology_file),
            "TIDEGATE_LINK_TOKEN": "the-token-of-the-workers",
        }
        if name in WORKERS:
            places = ",".join(f"ws://127.0.0.1:{port}" for port in self._ports.values())
            own = {"TIDEGATE_INSTANCE": name, "TIDEGATE_LINK": places}
            return both | own | {HAPPENED: str(self.folder / "happened")}
        port = self._ports.get(name)
        return {
            **both,
            **self.cluster.environ(self.folder / "data"),
            "STAGE": name,
            "TIDEGATE_VAULT_KEY_FILE": str(self.folder / "key"),
            **({} if port is None else {"TIDEGATE_LINK_LISTEN": f"127.0.0.1:{port}"}),
        }

    def _lines(self) -> list[str]:
        return (self.folder / "happened").read_text().splitlines()

    def _calls(self) -> Calls:
        return calls_in(self._lines())


def _ports() -> dict[str, int]:
    """A port for each process that listens for workers, so that two layouts may meet."""
    first = pick_free()
    return dict(zip(OWNERS, (first, pick_free(frozenset({first}))), strict=True))


def _event(tenant: str, event_type: str, key: str, subject: str) -> Envelope:
    return Envelope(
        fingerprint(tenant, "shop", key),
        new_id("evt"),
        "shop",
        tenant,
        event_type,
        None,
        1,
        b"h" * 32,
        key,
        subject,
        "application/json",
        None,
        None,
        PayloadRef(0, (7,), 10, "kek"),
        {},
        "webhook",
    )
