"""The worker of Temporal: workflows that note their lines unless they are replayed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import uvloop
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import (
    PollerBehaviorAutoscaling,
    PollerBehaviorSimpleMaximum,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerTuner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

with workflow.unsafe.imports_passed_through():
    from peers import journal

QUEUE = "peers"
_SETTINGS: Mapping[str, str] = json.loads(os.environ["PEERS_TEMPORAL_WORKER"])
_WITHIN = timedelta(seconds=10)
"""After so long an activity whose worker was killed is given out again."""


@workflow.defn(name="plain")
class Plain:
    @workflow.run
    async def run(self, body: bytes) -> None:
        _note("start")
        _note("end")


@workflow.defn(name="effect")
class Effect:
    @workflow.run
    async def run(self, body: bytes) -> None:
        _note("start")
        name = workflow.info().workflow_id
        if _SETTINGS["activities"] == "local":
            await workflow.execute_local_activity(effect, name, start_to_close_timeout=_WITHIN)
        else:
            await workflow.execute_activity(effect, name, start_to_close_timeout=_WITHIN)
        _note("end")


@workflow.defn(name="wait")
class Wait:
    def __init__(self) -> None:
        self._answered = False

    @workflow.run
    async def run(self, event_id: str, body: bytes) -> None:
        _note("start", event_id)
        await workflow.wait_condition(lambda: self._answered)
        _note("woke", event_id)
        _note("end", event_id)

    @workflow.signal
    def answered(self) -> None:
        self._answered = True


@workflow.defn(name="fan")
class Fan:
    @workflow.run
    async def run(self, body: bytes, jobs: int) -> None:
        _note("start")
        name = workflow.info().workflow_id
        children = (
            workflow.execute_child_workflow(Plain.run, b"", id=f"{name}/{number}")
            for number in range(jobs)
        )
        await asyncio.gather(*children)
        _note("end")


@activity.defn
async def effect(event_id: str) -> str:
    return await journal.effect(event_id)


def _note(kind: str, event_id: str = "") -> None:
    if not workflow.unsafe.is_replaying():
        journal.note(kind, event_id or workflow.info().workflow_id)


def _runner() -> Any:
    sandboxed = _SETTINGS["sandbox"] == "on"
    return SandboxedWorkflowRunner() if sandboxed else UnsandboxedWorkflowRunner()


def _slots() -> dict[str, Any]:
    """So many of each kind, or as many as a share of processor and memory allows."""
    slots = _SETTINGS["slots"]
    if slots.isdigit():
        tuner = WorkerTuner.create_fixed(
            workflow_slots=int(slots), activity_slots=int(slots), local_activity_slots=int(slots)
        )
    else:
        tuner = WorkerTuner.create_resource_based(
            target_memory_usage=float(slots), target_cpu_usage=float(slots)
        )
    return {"tuner": tuner}


def _pollers() -> dict[str, Any]:
    polls = _SETTINGS["pollers"]
    fixed = polls.isdigit()
    many = PollerBehaviorSimpleMaximum(int(polls)) if fixed else PollerBehaviorAutoscaling()
    return {"workflow_task_poller_behavior": many, "activity_task_poller_behavior": many}


async def _serve() -> None:
    client = await Client.connect(os.environ["PEERS_TEMPORAL"])
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=[Plain, Effect, Wait, Fan],
        activities=[effect],
        workflow_runner=_runner(),
        max_cached_workflows=int(_SETTINGS["cached"]),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=float(_SETTINGS["sticky"])),
        **_slots(),
        **_pollers(),
    )
    await worker.run()


if __name__ == "__main__":
    uvloop.run(_serve())
