"""Secrets that handlers say are on no topic, and in no log, metric, span and answer of the API."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from aiohttp.web import UrlDispatcher
from prometheus_client import generate_latest
from support.canaries import CREDENTIAL, JOBS, NAMES, TOPOLOGY, app, found_in
from support.operator_desk import OperatorDesk, client_of
from support.recorded_spans import recording

from streams.api.read_model.database import Database
from streams.api.read_model.projections import _TABLES as TABLES
from streams.testing import Bench, Job
from streams.topology.load import load

OTHERS = "canary-of-another-tenant"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    file = tmp_path / "canaries.yaml"
    file.write_text(TOPOLOGY)
    with Bench(app, topology=file) as made:
        made.credential("stripe", CREDENTIAL)
        yield made


def records(bench: Bench) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Every record of every topic."""
    for topic in load().topics:
        for record in bench._behind.pipeline.output(topic):
            yield topic, record.key or b"", record.value


def places(bench: Bench) -> Iterator[tuple[str, bytes]]:
    for topic, key, value in records(bench):
        yield topic, key + b" " + (value or b"")


async def answers(
    bench: Bench, tmp_path: Path, jobs: list[Job]
) -> AsyncIterator[tuple[str, bytes]]:
    """What each call that reads answers, of the tenant and of each of its jobs."""
    rows = Database(tmp_path / "m.sqlite").open_writer()
    desk = OperatorDesk(rows)
    desk.project(each for each in records(bench) if each[0] in TABLES)
    async with client_of(desk) as client:
        for path in sorted(set(paths(client, jobs))):
            answer = await client.get(path)
            yield f"GET {path} {answer.status}", await answer.read()
    rows.close()


def paths(client: TestClient[Any, Any], jobs: list[Job]) -> Iterator[str]:
    """The paths of all calls that read, with the ids of the tenant and of the jobs."""
    router: UrlDispatcher = client.app.router
    for route in router.routes():
        path = route.resource.canonical if route.resource and route.method == "GET" else ""
        streams = path.endswith("/stream") or re.search(r"/(jobs|workflows)/[^/]+/events$", path)
        if not path or streams:
            continue
        for job in jobs:
            ids = {"tenant_id": "acme", "tenant": "acme", "t": "acme"}
            yield re.sub(r"{(\w+)[^}]*}", lambda found: ids.get(found[1], job.id), path)  # noqa: B023


async def test_what_handlers_say_shows_no_secret_anywhere(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with recording() as spans:
        jobs = [bench.submit(type_, given).run() for type_, given in JOBS]
    ended = {job.record.type: job.status for job in jobs}
    assert ended == {
        "says": "succeeded",
        "raises": "dead",
        "groups": "dead",
        "permanent": "failed",
        "hangs": "dead",
        "in_effect": "needs_review",
        "in_step": "dead",
        "continues": "succeeded",
        "checked": "dead",
    }
    assert all("[redacted]" in str(job.error) for job in jobs if ended[job.record.type] == "failed")
    lines = capsys.readouterr().out.splitlines()
    # The bench leaves the configuration of logs to the test, so handlers' own lines do not count.
    by_worker = "\n".join(line for line in lines if "run ended" in line)
    assert found_in(places(bench)) == []
    assert found_in([("logs", by_worker.encode()), ("spans", spans.text().encode())]) == []
    assert found_in([("metrics", generate_latest())]) == []
    assert found_in([("read back", repr([(job.steps, job.result) for job in jobs]).encode())]) == []
    told = [each async for each in answers(bench, tmp_path, jobs)]
    assert len([place for place, _ in told if place.endswith(" 200")]) > len(jobs)
    assert found_in(told) == []
    assert any(b"[redacted]" in held for _, held in told)


@pytest.mark.parametrize("call", NAMES)
@pytest.mark.parametrize("which", range(4))
async def test_a_name_that_is_a_secret_is_refused_before_it_is_anywhere(
    bench: Bench, tmp_path: Path, call: str, which: int
) -> None:
    with recording() as spans:
        job = bench.submit("names", [call, which]).run()
    # A credential is refused. Of any other argument the ledger has the digest, and people get the
    # sealed text.
    passed = {"effect_argument": "succeeded", "approval_argument": "waiting"} if which else {}
    assert job.status == passed.get(call, "failed")
    assert str(job.error).startswith("None" if call in passed else "PermanentError: ")
    assert found_in([*places(bench), ("spans", spans.text().encode())]) == []


async def test_a_tenant_is_shown_nothing_of_another(bench: Bench, tmp_path: Path) -> None:
    own = bench.submit("continues", {"text": "own"}).run()
    other = bench.submit("continues", {"text": OTHERS}, tenant="beta").run()
    assert (own.status, other.status) == ("succeeded", "succeeded")
    told = [each async for each in answers(bench, tmp_path, [own])]
    mine = [(place, held) for place, held in told if "acme" in place or own.id in place]
    assert mine
    assert found_in(mine, OTHERS) == []
    of_own = [(place, held) for place, held in places(bench) if b"acme" in held]
    assert found_in(of_own, OTHERS) == []
