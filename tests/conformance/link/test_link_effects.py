"""An effect is claimed, called once with its key, and its outcome is told, in this order."""

from __future__ import annotations

import json

import pytest
from support.link_suite.play import Play
from support.link_suite.said import come

from streams import user_json
from streams.serde.records import ReplyKind

pytestmark = pytest.mark.long


async def test_an_effect_is_claimed_called_once_and_told(play: Play) -> None:
    leased = await play.run("two_effects", {"to": "Ann"})

    claim = await play.said.next("claim", leased.job_id)
    assert (claim.body.action, claim.body.run_id) == ("mail/first", leased.run_id)
    assert claim.body.digest == user_json.digest({"to": "Ann"})
    assert claim.body.key_lifetime_ms == 86_400_000
    assert play.tool.calls == []
    await play.owner.answer(claim, "granted", idempotency_key="key-1")
    await play.granted(leased, "key-2")

    ended = await play.ended(leased)
    assert json.loads(ended.result) == [{"call": 1}, {"call": 2}]
    assert play.tool.calls == [("key-1", {"n": 1}), ("key-2", {"n": 2})]
    outcomes = [t.body for t in play.said.all("outcome")]
    assert [(o.action, o.status, o.result) for o in outcomes] == [
        ("mail/first", "done", '{"call":1}'),
        ("mail/second", "done", '{"call":2}'),
    ]
    assert outcomes[0].claim_id == claim.body.claim_id
    assert play.said.of_jobs() == ["claim", "outcome", "claim", "outcome", "ended"]


async def test_a_done_effect_is_not_called_and_its_result_counts(play: Play) -> None:
    leased = await play.run("two_effects", {"to": "Ann"})
    for _ in range(2):
        claim = await play.said.next("claim", leased.job_id)
        await play.owner.answer(claim, "done", result='{"before":true}')
    ended = await play.ended(leased)
    assert json.loads(ended.result) == [{"before": True}, {"before": True}]
    assert play.tool.calls == []
    assert play.said.all("outcome") == []


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("held", "failed"),
        ("refused", "failed"),
        ("denied", "failed"),
        ("review", "review"),
        ("busy", "blocked"),
        ("full", "full"),
        ("cancel", "cancelled"),
    ],
)
async def test_a_claim_that_is_not_granted_calls_nothing(
    play: Play, answer: ReplyKind, status: str
) -> None:
    leased = await play.run("two_effects", {"to": "Ann"})
    claim = await play.said.next("claim", leased.job_id)
    await play.owner.answer(claim, answer, message="because of it")
    ended = await play.ended(leased)
    assert (ended.status, ended.result is None) == (status, answer not in ("busy", "full"))
    assert "because of it" in ended.error or answer == "held"
    assert play.tool.calls == []
    assert len(play.said.all("claim")) == 1


async def test_a_claim_that_is_lost_ends_the_run_without_a_word(play: Play) -> None:
    leased = await play.run("two_effects", {"to": "Ann"})
    claim = await play.said.next("claim", leased.job_id)
    await play.owner.answer(claim, "lost", message="another run has the job")
    await play.ended(await play.run("echo", 1))
    assert [t.job_id for t in play.said.all("ended")] != [leased.job_id]
    assert len(play.said.all("ended")) == 1
    assert play.tool.calls == []


async def test_a_call_that_failed_without_doing_anything_may_be_made_again(play: Play) -> None:
    play.tool.failing = True
    leased = await play.run("two_effects", {"to": "Ann"})
    await play.granted(leased, "key-1")
    outcome = (await play.said.next("outcome", leased.job_id)).body
    assert (outcome.status, outcome.blames_tool) == ("failed", True)
    assert (await play.ended(leased)).status == "retry"


async def test_a_failed_repeat_stays_unknown(play: Play) -> None:
    play.tool.failing = True
    leased = await play.run("two_effects", {"to": "Ann"})
    await play.granted(leased, "key-1", repeat=True)
    outcome = (await play.said.next("outcome", leased.job_id)).body
    assert outcome.status == "unknown"


async def test_a_run_that_is_cancelled_in_a_call_tells_what_became_of_it(play: Play) -> None:
    play.tool.gate.clear()
    leased = await play.run("two_effects", {"to": "Ann"})
    await play.granted(leased, "key-1")
    await come(lambda: play.tool.calls, "the call")
    session = await play.owner.connected()
    await play.owner.end_run(leased, "cancel")
    beats = len(session.beats)
    await come(lambda: len(session.beats) > beats + 1, "two beats, since the worker has read it")
    play.tool.gate.set()
    outcome = (await play.said.next("outcome", leased.job_id)).body
    assert outcome.status in ("done", "unknown")
    assert (await play.ended(leased)).status == "cancelled"
    assert play.said.of_jobs() == ["claim", "outcome", "ended"]


async def test_a_question_that_is_acknowledged_without_an_answer_is_asked_again(
    play: Play,
) -> None:
    leased = await play.run("two_effects", {"to": "Ann"})
    claim = await play.said.next("claim", leased.job_id)
    await play.owner.acknowledge(claim.partition)
    await come(lambda: play.said.copies, "the claim again")
    assert play.said.copies[0].content == claim.content
    await play.owner.answer(claim, "granted", idempotency_key="key-1")
    await play.granted(leased, "key-2")
    assert (await play.ended(leased)).status == "succeeded"
    assert play.tool.keys == ["key-1", "key-2"]
