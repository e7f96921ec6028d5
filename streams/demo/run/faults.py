"""SIGKILLs that hit work in progress, and the proof that they did.

A kill counts only if it landed: what the dead process had taken and not finished is observed from
outside before its successor is up. A kill that hit an idle process is tried again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from streams.demo.run.kill import RECOVERY_SECONDS, Kill
from streams.demo.run.owner_faults import OwnerFaults
from streams.demo.run.strikes import CHANCE_SECONDS, counted
from streams.demo.run.waiting import until
from streams.demo.verdict.groups import Groups
from streams.demo.verdict.topic_recorder import TopicRecorder
from streams.demo.world.delivery import Vendor
from streams.demo.world.hold import Hold
from streams.demo.world.receiver import Hook, Receiver
from streams.demo.world.recorder import Call, Recorder
from streams.demo.world.scenario import CAPPED_TENANT, TENANTS
from streams.demo.world.subscribers import STRUCK_ENDPOINT
from streams.dev.pipeline import Pipeline
from streams.dev.readiness import unready
from streams.serde import delivery_states, job_states

T = TypeVar("T")

_SHORT_CHANCE_SECONDS = 3.0

_UNHINDERED = frozenset(TENANTS) - {CAPPED_TENANT}
"""Tenants whose interrupted jobs need not queue behind a cap before they move on."""


class Faults(OwnerFaults):
    """Strikes the processes of one pipeline; each strike returns whether it landed."""

    def __init__(
        self,
        pipeline: Pipeline,
        vendor: Vendor,
        recorder: Recorder,
        topics: TopicRecorder,
        groups: Groups,
        receiver: Receiver,
    ) -> None:
        super().__init__(pipeline, topics, groups)
        self._vendor = vendor
        self._recorder = recorder
        self._receiver = receiver

    def plan(self) -> list[tuple[str, Callable[[], Awaitable[bool]]]]:
        """The strikes of a run in their order, each with the stage that it strikes.

        Timers grow rare towards the end, while jobs run until it.
        """
        return [
            ("ingress", self.ingress),
            ("worker", lambda: self.worker("email:send")),
            ("delivery", self.delivery),
            ("dedup", lambda: self.stage("dedup")),
            ("worker", lambda: self.worker("payment:refund")),
            ("scheduler", self.scheduler),
            ("dispatcher", self.dispatcher),
        ]

    async def steady(self, stage: str) -> None:
        """Return once every process of a stage is at work: a starting one holds no work."""
        runs = self._runs(stage)
        urls = {m.name: m.ready_url for m in self._pipeline.members if m.stage == runs}
        while True:
            if not await unready(urls):
                return
            await asyncio.sleep(0.1)

    async def ingress(self) -> bool:
        """Strike an ingress that holds requests; the proof is that their connections broke."""
        member = next(m for m in self._pipeline.members if m.stage == "ingress")
        if not await until(lambda: self._vendor.under_way[member.url] >= 2, _SHORT_CHANCE_SECONDS):
            return False
        pid, at = self._strike(member.name)
        await until(lambda: self._vendor.under_way[member.url] == 0, 2)
        broken = [b for b in self._vendor.broken if b.ingress == member.url and b.sent_at < at]
        if not pid or not broken:
            return False
        kill = Kill("ingress", member.name, pid, at, counted(len(broken), "request"))
        self._watch(kill, self._takes_requests(member.url))
        return True

    async def worker(self, action: str) -> bool:
        """Strike the worker whose call the outside world has received and not answered."""
        return await _while_kept(self._recorder.hold(action, _UNHINDERED), self._strike_caller)

    async def _strike_caller(self, call: Call) -> bool:
        name = self._process_of(call.caller.pid)
        await until(lambda: self._epoch_of(call) is not None, CHANCE_SECONDS)
        epoch = self._epoch_of(call)
        if name is None or epoch is None:
            return False
        pid, at = self._strike(name)  # it is alive, because its call is unanswered
        what = f"{call.action} of {call.caller.tenant_id}/{call.external_id}, epoch {epoch}"
        kill = Kill("worker", name, pid, at, what, call.caller.job_id, epoch)
        self._watch(kill, until(lambda: self._taken_back(kill), RECOVERY_SECONDS))
        return True

    async def delivery(self) -> bool:
        """Strike the delivery stage while a receiver has a message and has not answered."""
        return await _while_kept(self._receiver.hold(STRUCK_ENDPOINT), self._strike_sender)

    async def _strike_sender(self, hook: Hook) -> bool:
        owners = await asyncio.to_thread(self._groups.owners, "delivery")
        await until(lambda: hook.place in self._topics.rows, CHANCE_SECONDS)
        rows = (s for s in self._topics.records.deliveries if s.value.message_id == hook.message_id)
        name = next((owners.get(row.partition, "") for row in rows), "")
        pid, at = self._strike(name)
        await self._topics.to_end()
        row = self._topics.rows.get(hook.place)
        if not pid or row is None or row.status != delivery_states.PENDING:
            return False
        what = f"an attempt for {hook.tenant_id}/{hook.endpoint_id}"
        kill = Kill("delivery", name, pid, at, what)
        self._watch(kill, until(lambda: self._is_delivered(hook), RECOVERY_SECONDS))
        return True

    async def _takes_requests(self, url: str) -> bool:
        while True:
            if await self._vendor.knock(url, TENANTS[0]) == 400:
                return True
            await asyncio.sleep(0.05)

    def _epoch_of(self, call: Call) -> int | None:
        job = self._topics.records.leased.get(call.caller.run_id)
        return None if job is None else job.epoch

    def _is_delivered(self, hook: Hook) -> bool:
        row = self._topics.rows.get(hook.place)
        return row is not None and row.status == delivery_states.DELIVERED

    def _taken_back(self, kill: Kill) -> bool:
        """Whether the job was taken from the dead worker."""
        job = self._topics.newest.get(kill.job_id)
        if job is None:
            return False
        is_over = job.epoch == kill.epoch and job.status not in job_states.LEASED
        return is_over or job.epoch > kill.epoch


async def _while_kept(hold: Hold[T], strike: Callable[[T], Awaitable[bool]]) -> bool:
    """Strike whoever made the request that a hold keeps; False if none comes in time."""
    try:
        return await strike(await asyncio.wait_for(hold.request, CHANCE_SECONDS))
    except TimeoutError:
        return False
    finally:
        hold.release()
