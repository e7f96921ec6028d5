"""The script of a run on a running pipeline: deliver, kill, wait, stop, examine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Self

from streams.demo.run.faults import Faults
from streams.demo.run.operator_api import Listed, OperatorApi
from streams.demo.run.outgoing import Outgoing
from streams.demo.verdict.evidence import Evidence, Submitted
from streams.demo.verdict.fold import StoreFinding, examine
from streams.demo.verdict.groups import Groups
from streams.demo.verdict.report import Report
from streams.demo.verdict.topic_recorder import TopicRecorder
from streams.demo.world.delivery import Vendor
from streams.demo.world.recorder import Recorder
from streams.demo.world.scenario import (
    DELAY_SECONDS,
    DELAYED_TENANT,
    DELAYED_TICKET,
    DELAYED_TYPE,
    TENANTS,
    Scenario,
    Ticket,
)
from streams.dev.pipeline import Pipeline
from streams.errors import TidegateError
from streams.serde.job_states import TERMINAL, VISIBLY_WAITING
from streams.topology.load import load

_CONCURRENCY = 32
_LIVE_SECONDS = 15.0
_STALLED_SECONDS, _STALLED_AFTER_KILLS = 12.0, 30.0
_ATTEMPTS_A_FAULT = 3


class Script:
    """The participants of one run; `evidence` is its script."""

    def __init__(
        self, scenario: Scenario, pipeline: Pipeline, recorder: Recorder, report: Report
    ) -> None:
        self._scenario = scenario
        self._pipeline = pipeline
        self._recorder = recorder
        self._report = report
        self._ingress = [m.url for m in pipeline.members if m.stage == "ingress"]
        self._vendor = Vendor(scenario, self._ingress, _CONCURRENCY)
        self._topics = TopicRecorder(pipeline.settings)
        operator = next(m.url for m in pipeline.members if m.stage == "operator")
        self._api = OperatorApi(operator, pipeline.credentials.admin_token)
        groups = Groups(pipeline.settings)
        self._outgoing = Outgoing(scenario, self._api, self._topics, report)
        self._faults = Faults(
            pipeline, self._vendor, recorder, self._topics, groups, self._outgoing.receiver
        )

    async def __aenter__(self) -> Self:
        await self._vendor.open()
        await self._outgoing.open()
        self._topics.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._vendor.close()
        await self._outgoing.close()
        await self._api.close()
        await self._topics.close()

    async def console(self) -> str:
        """Return a link that opens the console once, within two minutes."""
        return self._pipeline.url + await self._api.console_path()

    async def evidence(self, *, kill: bool) -> Evidence:
        await self._create_tenants()
        await self._outgoing.set_endpoints()
        submitted = await self._submit_delayed()
        await self._deliver(kill=kill)
        self._report.phase("all deliveries answered 2xx; waiting for every job's end")
        unfinished = await self._all_ended(submitted)
        unfinished += await self._outgoing.all_ended({each.job_id for each in submitted})
        kills = await self._faults.recovered()
        listed = await self._list_jobs()
        stores = await self._stop_and_examine()
        return Evidence(
            scenario=self._scenario,
            answers=tuple(self._vendor.answers),
            refused=tuple(self._vendor.refused),
            submitted=tuple(submitted),
            starts=tuple(self._recorder.starts),
            calls=self._recorder.calls,
            texts=tuple(self._recorder.texts),
            high_water=self._recorder.high_water,
            hooks=self._outgoing.hooks,
            records=self._topics.records,
            kills=tuple(kills),
            kill_wanted=kill,
            listed=tuple(listed),
            stores=tuple(stores),
            unfinished=tuple(unfinished),
            undecodable=tuple(self._topics.undecodable),
        )

    async def _create_tenants(self) -> None:
        for tenant, secret in self._scenario.secrets.items():
            await self._api.create_tenant(tenant, secret)
        deadline = time.monotonic() + _LIVE_SECONDS
        for ingress in self._ingress:
            for tenant in TENANTS:
                while await self._vendor.knock(ingress, tenant) != 400:
                    if time.monotonic() > deadline:
                        raise TidegateError(f"{ingress} does not know {tenant}'s source")
                    await asyncio.sleep(0.05)
        self._report.phase("three tenants and their sources are live on both ingress processes")

    async def _submit_delayed(self) -> list[Submitted]:
        """Make the same submission twice."""
        body = {
            "type": DELAYED_TYPE,
            "delay_seconds": DELAY_SECONDS,
            "callback_url": self._outgoing.callback_url,
            "input": {
                "ticket": DELAYED_TICKET,
                "to": "customer-0@example.com",
                "text": f"Is all well? {self._scenario.markers[DELAYED_TENANT]}",
            },
        }
        answers = []
        for _ in range(2):
            not_before = time.time() + DELAY_SECONDS
            job = await self._api.submit(DELAYED_TENANT, body, "follow-up")
            answers.append(Submitted(DELAYED_TENANT, job["job_id"], not_before))
        first = answers[0].not_before
        return [Submitted(a.tenant_id, a.job_id, first) for a in answers]

    async def _deliver(self, *, kill: bool) -> None:
        """Make all deliveries; with `kill`, in as many parts as the faults may need attempts."""
        telling = asyncio.create_task(self._tell())
        disturbing = asyncio.create_task(self._outgoing.disturb())
        faults = self._faults.plan() if kill else []
        for part in split(self._scenario.volleys, max(1, len(faults) * _ATTEMPTS_A_FAULT)):
            if not faults:
                await self._vendor.deliver(part)
                continue
            stage, strike = faults[0]
            await self._faults.steady(stage)
            landed, _ = await asyncio.gather(strike(), self._vendor.deliver(part))
            if landed:
                faults.pop(0)
                struck = self._faults.kills[-1]
                self._report.phase(f"killed {struck.process} with {struck.in_flight} in flight")
        await disturbing
        telling.cancel()

    async def _tell(self) -> None:
        while True:
            self._report.progress(self._state)
            await asyncio.sleep(0.2)

    def _state(self) -> str:
        ended = sum(job.status in TERMINAL for job in self._topics.newest.values())
        return (
            f"{len(self._vendor.answers):,} of {self._scenario.deliveries:,} deliveries answered, "
            f"{len(self._topics.newest):,} jobs, {ended:,} ended, "
            f"{len(self._recorder.calls):,} side effects, "
            f"{len(self._outgoing.hooks):,} webhooks out"
        )

    async def _all_ended(self, submitted: Sequence[Submitted]) -> list[str]:
        """The work that has not ended once nothing moves any more; empty if all is done."""
        expected = {answer.job_id for answer in self._vendor.answers if answer.job_id}
        expected |= {each.job_id for each in submitted}
        patience = _STALLED_AFTER_KILLS if self._faults.kills else _STALLED_SECONDS
        state, since = self._moves(), time.monotonic()
        while left := list(self._unended(expected)):
            if self._moves() != state:
                state, since = self._moves(), time.monotonic()
            if time.monotonic() - since > patience:
                return left
            self._report.progress(self._state)
            await asyncio.sleep(0.05)
        return []

    def _moves(self) -> tuple[int, ...]:
        """Counts that change while there is something to wait for, pending timers included."""
        newest_due = max((s.value.due_at for s in self._topics.records.schedule), default=0) / 1000
        ahead = max(0, round(newest_due - time.time()))
        topics, recorder = self._topics, self._recorder
        return len(topics.records.jobs), len(recorder.starts), len(recorder.calls), ahead

    def _unended(self, expected: set[str]) -> Iterator[str]:
        jobs = self._topics.newest
        for job_id in sorted(expected | jobs.keys()):
            status = jobs[job_id].status if job_id in jobs else "not on the jobs topic"
            if status not in TERMINAL | VISIBLY_WAITING:
                yield f"{job_id} did not end: it is {status}"

    async def _list_jobs(self) -> list[Listed]:
        """The jobs that HTTP shows, once they agree with the topic or after a while."""
        self._report.phase("listing every job over HTTP")
        deadline = time.monotonic() + _LIVE_SECONDS
        while True:
            listed = [job for tenant in TENANTS for job in await self._api.list_jobs(tenant)]
            shown = {job.job_id: job.status for job in listed}
            truth = {job_id: job.status for job_id, job in self._topics.newest.items()}
            if shown == truth or time.monotonic() > deadline:
                return listed
            await asyncio.sleep(0.2)

    async def _stop_and_examine(self) -> list[StoreFinding]:
        self._report.phase("stopping the stages, then comparing their stores with the changelogs")
        if self._pipeline.supervisor:
            await self._pipeline.supervisor.stop()
        await self._topics.to_end()
        settings = self._pipeline.settings
        return await asyncio.to_thread(examine, settings, load(settings.topology))


def split(
    volleys: Sequence[tuple[Ticket, ...]], parts: int
) -> Iterator[Sequence[tuple[Ticket, ...]]]:
    """The volleys in order, in this many parts of about the same size."""
    size = -(-len(volleys) // parts)
    for start in range(0, len(volleys), size):
        yield volleys[start : start + size]
