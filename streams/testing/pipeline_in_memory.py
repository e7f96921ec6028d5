"""The product's pipeline over lists in memory, and what it has written so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import cast

from streams import pipeline
from streams.errors import PermanentError
from streams.ledger_entries import current
from streams.link.owner import Owner
from streams.link.terms import Terms
from streams.runtime.driver import START_MS, TopologyTestDriver
from streams.runtime.link import Workers
from streams.runtime.processor import Record
from streams.serde.codec import (
    APPROVAL,
    COMMAND,
    DEAD_LETTER,
    JOB,
    LIVE,
    PROGRESS,
    STEP_RESULT,
    TENANT,
)
from streams.serde.ids import new_id
from streams.serde.keys import SEPARATOR, after, checkpoint_key, join, tenant_key
from streams.serde.records import (
    Approval,
    Command,
    CommandBody,
    DeadLetter,
    Job,
    LedgerEntry,
    LiveOutput,
    PayloadRef,
    Progress,
    StepResult,
    TenantRecord,
)
from streams.testing.refused import Refused
from streams.topology.model import Topology

_HEARD_OUT_SECONDS = 0.2
"""A dispatcher leases nothing before it has read what lay in its log when it started."""


class PipelineInMemory:
    """Dedup, scheduler and dispatcher on the virtual clock; `AwaitedProducer`'s twin for intake."""

    def __init__(self, topology: Topology) -> None:
        stage = pipeline.stage(topology)
        self._terms = Terms(
            "bench", topology.partitions, frozenset(topology.pools), topology.leases
        )
        self._driver = TopologyTestDriver([stage], topology, open_link=self._owner)
        self._run = self._driver.run_of(stage.name)
        self._driver.advance(_HEARD_OUT_SECONDS)
        self._jobs: defaultdict[str, list[Job]] = defaultdict(list)
        self._jobs_read = 0
        self._tenants: set[str] = set()

    @property
    def now(self) -> int:
        """The virtual wall clock, in milliseconds since the epoch."""
        return self._driver.now

    def seconds(self) -> float:
        """The virtual time since the start: small numbers, in which a millisecond still counts."""
        return (self._driver.now - START_MS) / 1000

    @property
    def owner(self) -> Owner:
        """The end of the link that the process of the pipeline has."""
        return cast(Owner, self._run.link)

    def flow(self) -> None:
        """Let the pipeline process what has come over the link."""
        with self._driver.together():
            pass

    def job(self, partition: int, job_id: str) -> Job | None:
        """See `streams.link.requests.CommittedJobs`."""
        value = self._driver.store("dispatcher", "jobs", partition).get(job_id.encode())
        return None if value is None else JOB.decode(value)

    def left(self, partition: int, job: Job, wait: str) -> StepResult | None:
        """See `streams.link.requests.CommittedJobs`."""
        key = checkpoint_key(job.job_id, job.incarnation, wait)
        value = self._driver.store("dispatcher", "checkpoints", partition).get(key)
        return None if value is None else STEP_RESULT.decode(value)

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        """See `streams.vault.opening.Fetch`."""
        found: Future[list[bytes]] = Future()
        chunks = self.output("payloads")
        if any(offset >= len(chunks) for offset in ref.offsets):
            found.set_exception(PermanentError(f"payloads:{ref.partition}: the body is gone"))
        else:
            found.set_result([chunks[offset].value or b"" for offset in ref.offsets])
        return found

    def pass_time(self, milliseconds: int) -> None:
        """Move the clock, and let what is due by then happen at the end of that time."""
        self._run.pace.due = self._driver.now + milliseconds
        self._driver.advance(milliseconds / 1000)

    def pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        """Append a record and let it flow; returns its offset."""
        self._driver.pipe(topic, key, value, headers=headers)
        return len(self._driver.output(topic)) - 1

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        """See `ingress.receive.sender.Sender`."""
        return self.pipe(topic, key, value, headers)

    def ask(self, body: CommandBody, tenant_id: str, job_id: str) -> None:
        """Send a command of an operator.

        Raises:
            Refused: the dispatcher made a dead letter of it.
        """
        command = Command(new_id("cmd"), tenant_id, job_id, 0, self.now, body)
        before = len(self.record_letters())
        self.pipe("jobs.commands", tenant_id.encode(), COMMAND.encode(command))
        for letter in self.record_letters()[before:]:
            raise Refused(letter.reason, letter.detail)

    def set_up(self, tenants: Iterable[str]) -> None:
        """Let there be these tenants, as `PUT /v1/tenants/{t}` does, unless there are already."""
        for tenant_id in tenants:
            if tenant_id in self._tenants:
                continue
            self._tenants.add(tenant_id)
            record = TenantRecord(tenant_id, "tenant", "", False, "{}")
            self.pipe("tenants", tenant_key(tenant_id, "tenant", ""), TENANT.encode(record))

    def scheduled(self, tenant_id: str, schedule_id: str) -> list[Job]:
        """The jobs of a schedule, in the order of its times."""
        newest: dict[bytes | None, Job] = {
            r.key: JOB.decode(r.value) for r in self.output("jobs") if r.value
        }
        whose = tenant_id, schedule_id
        found = [job for job in newest.values() if (job.tenant_id, job.schedule_id) == whose]
        return sorted(found, key=lambda job: job.scheduled_for or 0)

    def output(self, topic: str) -> list[Record]:
        """Every record of a topic so far."""
        return self._driver.output(topic)

    def job_records(self, job_id: str) -> list[Job]:
        """Every record of one job, in order."""
        self._follow_jobs()
        return self._jobs.get(job_id, [])

    def children(self, job_id: str) -> list[Job]:
        """The jobs that a job asked for, as they are now, in the order in which they were made."""
        self._follow_jobs()
        newest = (records[-1] for records in self._jobs.values())
        return [job for job in newest if job.parent and job.parent.job_id == job_id]

    def entries(self, job: Job) -> list[LedgerEntry]:
        """Each effect that a job asked for, as it is now, in the order in which it first did."""
        prefix = join(job.tenant_id, job.scope) + SEPARATOR
        keys = (record.key for record in self.output("ledger") if record.key is not None)
        store = self._driver.store("dispatcher", "ledger")
        found = (current(store, key) for key in dict.fromkeys(keys) if key.startswith(prefix))
        return [entry for entry in found if entry is not None]

    def approvals(self, job: Job) -> list[Approval]:
        """What the jobs of a scope asked people to approve, in the order of the first questions."""
        prefix = join(job.tenant_id, job.scope) + SEPARATOR
        store = self._driver.store("dispatcher", "approvals")
        found = [APPROVAL.decode(value) for _, value in store.range(prefix, after(prefix))]
        return sorted(found, key=lambda approval: approval.asked_at)

    def steps(self, job: Job) -> list[StepResult]:
        """What each finished step and wait left, in the order in which they ended."""
        prefix = join(job.job_id, str(job.incarnation)) + SEPARATOR
        store = self._driver.store("dispatcher", "checkpoints")
        kept = dict(store.range(prefix, after(prefix)))
        ended = [record.key for record in self.output("dispatcher.checkpoints.changelog")]
        return [STEP_RESULT.decode(kept[key]) for key in dict.fromkeys(ended) if key in kept]

    def progress(self, job_id: str) -> list[Progress]:
        """What a job published, in order."""
        key = job_id.encode()
        records = self.output("jobs.progress")
        return [PROGRESS.decode(r.value) for r in records if r.key == key]

    def live(self, job_id: str) -> list[LiveOutput]:
        """What the runs of a job said while they ran, in order."""
        key = job_id.encode()
        return [LIVE.decode(r.value) for r in self.output("jobs.live") if r.key == key]

    def dead_letter(self, job_id: str) -> DeadLetter | None:
        """The newest dead letter of a job."""
        found = [letter for letter in self._letters() if letter.job_id == job_id]
        return next((each for each in reversed(found) if each.kind == "job"), None)

    def record_letters(self) -> list[DeadLetter]:
        """Records that a stage could not process."""
        return [letter for letter in self._letters() if letter.kind == "record"]

    def _owner(self, workers: Workers) -> Owner:
        return Owner(workers, self._terms, lambda: self._driver.now / 1000)

    def _follow_jobs(self) -> None:
        """Decode what is new on `jobs`: a test asks often."""
        records = self.output("jobs")
        for record in records[self._jobs_read :]:
            if record.key is not None and record.value is not None:
                self._jobs[record.key.decode()].append(JOB.decode(record.value))
        self._jobs_read = len(records)

    def _letters(self) -> list[DeadLetter]:
        return [DEAD_LETTER.decode(record.value) for record in self.output("dlq")]
