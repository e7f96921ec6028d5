"""What the operator says of itself, and of what waits for people."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from streams.doctor.commands import Commands
from streams.doctor.operator_state import operator
from streams.doctor.operator_view import OperatorSeen, read_operator
from streams.errors import TidegateError
from streams.settings import Settings

HERE = Commands(Settings(), None, {})
CALM = 'tidegate_dead_letters 0.0\ntidegate_jobs{status="needs_review"} 0.0\n'


def judged(status: int = 200, ready: str = "ready", metrics: str = CALM) -> list[tuple[str, str]]:
    return [(f.status, f.text) for f in operator(HERE, OperatorSeen(status, ready, metrics))]


def test_an_operator_that_is_ready_and_has_nothing_for_people_is_ok() -> None:
    assert [status for status, _ in judged()] == ["ok", "ok"]


def test_one_that_is_not_ready_says_why() -> None:
    (status, text), *_ = judged(503, "the read model\nhas not caught up")
    assert status == "warn"
    assert "503, 'the read model has not caught up'" in text


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ("tidegate_dead_letters 3.0", "3 dead letters"),
        ('tidegate_jobs{status="needs_review"} 1.0', "1 job in review"),
        ("tidegate_quarantined_bodies 2.0", "2 bodies in the quarantine"),
        ("tidegate_full_backlogs 1.0", "1 full backlog"),
        ("tidegate_unknown_effects 2.0", "2 effects of unknown outcome"),
        ('tidegate_deliveries{status="parked"} 3.0', "3 parked deliveries"),
        ('tidegate_up{stage="worker"} 0.0\ntidegate_dead_letters 0.0', "1 process of `dev` did"),
    ],
)
def test_what_waits_for_people_is_a_warning(metrics: str, says: str) -> None:
    assert any(status == "warn" and says in text for status, text in judged(metrics=metrics))


@pytest.mark.parametrize("metrics", ["", "<html>", "other_metric 1.0", "tidegate_x{ 1"])
def test_an_answer_without_our_metrics_is_never_ok(metrics: str) -> None:
    assert judged(metrics=metrics)[-1][0] == "skipped"


def test_another_process_does_not_pass_for_the_operator() -> None:
    info = 'tidegate_process_info{stage="%s",version="1"} 1.0\n'
    assert [status for status, _ in judged(metrics=info % "pipeline")] == ["skipped"]
    assert [status for status, _ in judged(metrics=info % "operator" + CALM)] == ["ok", "ok"]
    of_dev = info % "pipeline" + 'tidegate_up{stage="operator"} 1.0\n' + CALM
    assert [status for status, _ in judged(metrics=of_dev)] == ["ok", "ok"]


@pytest.mark.parametrize("url", ["http://u:hunter2@127.0.0.1:1", "no url", "http://[", ""])
def test_an_address_where_nothing_answers_is_told_without_its_login(url: str) -> None:
    with pytest.raises(TidegateError) as raised:
        read_operator(url)
    assert "hunter2" not in str(raised.value)


async def test_metrics_that_arrive_in_pieces_are_read_to_their_end() -> None:
    many = "".join(f'tidegate_stage_lag_seconds{{stage="s{n}"}} 0.0\n' for n in range(20_000))

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=many + "tidegate_dead_letters 3.0\n")

    app = web.Application()
    app.router.add_get("/{path}", answer)
    async with TestServer(app) as server:
        seen = await asyncio.to_thread(read_operator, str(server.make_url("/")))
    assert any(finding.text == "3 dead letters" for finding in operator(HERE, seen))
