"""The agent goes on where it was: no model call and no tool call that finished is made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from examples.agent_loop import app as agent_loop
from examples.agent_loop import model
from examples.agent_loop.app import app
from examples.agent_loop.tools import fault
from streams import RetryAfter
from streams.testing import Bench, Job, crash_points

TOPOLOGY = Path(__file__).parents[3] / "examples/agent_loop/topology.yaml"
TASK = {"task": "Refund order 4171, please."}
CALLS = ["call_1", "call_2", "call_4", "call_5"]
"""Each call of a tool that there is."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY) as bench:
        yield bench


def approved(bench: Bench) -> Job:
    """The agent at its end, after a person has approved its refund."""
    job = bench.submit("agent", TASK).run()
    assert (job.status, job.waits) == ("waiting", ["shop:refund/call_4"])
    return job.approve("shop:refund/call_4").run()


def test_the_agent_answers_and_publishes_each_turn(bench: Bench) -> None:
    job = approved(bench)
    assert job.result == {"answer": model.TRANSCRIPT[-1]["text"], "turns": 5}
    assert [each["turn"] for each in job.progress][-1] == 5
    assert [call.key for call in job.calls] == CALLS


def test_a_long_conversation_continues_as_a_new_run_of_the_same_job(bench: Bench) -> None:
    job = approved(bench)
    assert (job.record.continuations, list(job.steps)) == (1, ["model", "model#2"])


def test_the_model_is_told_what_it_made_up(bench: Bench) -> None:
    job = approved(bench)
    said = orjson.loads(job.record.input or "")["messages"]
    (told,) = [message for message in said if message.get("id") == "call_3"]
    assert told["result"]["error"].startswith(
        "there is no tool shop:history: use one of shop:order"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing a required argument: 'order_id'"),
        ({"order_id": "4711", "key": "x"}, "got an unexpected keyword argument 'key'"),
        ({"order_id": "4711", "idempotency_key": "x"}, "multiple values"),
    ],
)
def test_arguments_that_a_model_made_up_call_no_tool(arguments: Any, told: str) -> None:
    assert told in (fault({"tool": "shop:order", "arguments": arguments}) or "")


def test_a_refund_that_a_person_refuses_is_not_made(bench: Bench) -> None:
    job = bench.submit("agent", TASK).run().reject("shop:refund/call_4", note="too much").run()
    assert job.status == "failed"
    assert "too much" in (job.error or "")
    assert "call_4" not in [call.key for call in job.calls]


def test_an_agent_without_an_answer_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    again = {"text": "Once more.", "calls": [{"id": "?", "tool": "none", "arguments": {}}]}
    monkeypatch.setattr(model, "TRANSCRIPT", [again] * 50)
    job = bench.submit("agent", TASK).run()
    assert (job.status, job.error) == (
        "failed",
        "PermanentError: the agent has no answer after 20 turns",
    )


@pytest.mark.parametrize("given", [None, {"tsak": "x"}, {"task": 7}])
def test_a_task_that_cannot_be_read_fails_at_once(bench: Bench, given: Any) -> None:
    job = bench.submit("agent", given).run()
    assert (job.status, job.attempts) == ("failed", 1)


def test_a_model_that_is_too_busy_is_asked_again_for_the_same_turn_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[int]()

    async def busy(said: list[dict[str, Any]]) -> dict[str, Any]:
        asked[len(said)] += 1
        if asked[len(said)] == 1 and len(said) > 1:
            raise RetryAfter(20)
        return await model.ask_model(said)

    monkeypatch.setattr(agent_loop, "ask_model", busy)
    assert approved(bench).status == "succeeded"
    assert list(asked.values()) == [1, 2, 2, 2, 2]


def test_wherever_the_worker_dies_no_finished_call_is_made_again() -> None:
    for crash in crash_points():
        with Bench(app, topology=TOPOLOGY, crash=crash) as bench:
            job = bench.submit("agent", TASK).run().approve("shop:refund/call_4").run()
            if job.status == "needs_review":  # shop:refund honours no key: a person looks it up
                done = any(call.key == "call_4" for call in job.happened)
                settle = job.settle_done if done else job.settle_not_done
                settle("shop:refund/call_4").run()
            assert job.result["turns"] == 5
            assert [call.key for call in job.happened] == CALLS
