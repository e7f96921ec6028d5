"""The programs of the how-tos that call the operator's API, and the values of the small cluster."""

from __future__ import annotations

import asyncio
import re
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from support import chart, helm_tools, page_application

from streams.testing import Bench
from streams.worker.app_loader import load_app

HOW_TO = Path(__file__).parents[3] / "docs/how-to"
ORDERS = (HOW_TO / "follow-up.md").read_text()
EXPORTS = (HOW_TO / "show-progress.md").read_text()
(SMALL,) = re.findall(
    r"^```yaml\n(.*?)^```$", (HOW_TO / "small-cluster.md").read_text(), re.M | re.S
)


@dataclass
class Operator:
    """The operator's API as the how-tos' programs call it; `jobs` are its jobs by dedup key."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)

    async def submit(self, request: web.Request) -> web.Response:
        asked = await request.json()
        job = {"job_id": f"job_{len(self.jobs)}", "tenant_id": request.match_info["tenant"]}
        kept = self.jobs.setdefault(asked["dedup_key"], job | {"asked": asked})
        return web.json_response(kept, status=202 if kept["asked"] == asked else 409)

    async def cancel(self, request: web.Request) -> web.Response:
        ended = request.match_info["job_id"] in self.cancelled
        self.cancelled.append(request.match_info["job_id"])
        return web.json_response({}, status=409 if ended else 202)

    async def show(self, request: web.Request) -> web.Response:
        found = [j for j in self.jobs.values() if j["job_id"] == request.match_info["job_id"]]
        return web.json_response(found[0] if found else {}, status=200 if found else 404)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """Serves in a thread: a bench keeps the test's own event loop from answering."""
    found, loop = Operator(), asyncio.new_event_loop()
    app = web.Application()
    app.router.add_post("/v1/tenants/{tenant}/jobs", found.submit)
    app.router.add_post("/v1/jobs/{job_id}/cancel", found.cancel)
    app.router.add_get("/v1/jobs/{job_id}", found.show)
    serving = Thread(target=loop.run_forever)
    serving.start()
    runner = web.AppRunner(app)

    async def start() -> str:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}"

    url = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    (tmp_path / "token").write_text("t0ken\n")
    for program in ("ORDERS", "PAGE"):
        monkeypatch.setenv(f"{program}_API", url)
        monkeypatch.setenv(f"{program}_TOKEN_FILE", str(tmp_path / "token"))
    yield found
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    serving.join()
    loop.close()


def test_the_orders_own_tests_pass(tmp_path: Path) -> None:
    folder = page_application.written(ORDERS, tmp_path / "orders")
    assert "2 passed" in page_application.own_tests(folder)


@pytest.mark.parametrize(
    "order", [("placed", "paid"), ("paid", "placed"), ("placed", "paid", "paid")]
)
def test_the_orders_reminder_is_submitted_once_and_cancelled(
    order: tuple[str, ...], operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = page_application.written(ORDERS, tmp_path / "orders")
    page_application.enter(folder, monkeypatch)
    body = {"order_id": "o-1", "email": "ada@example.com"}
    with Bench(load_app("app:app"), topology=folder / "topology.yaml") as bench:
        for number, kind in enumerate(order):
            job = bench.event(f"order.{kind}", body, source="shop", key=f"e{number}").run()
            assert job.status == "succeeded", job.error
    monkeypatch.delitem(sys.modules, "app")
    assert [(key, made["asked"]["type"]) for key, made in operator.jobs.items()] == [
        ("remind o-1", "remind")
    ]
    assert set(operator.cancelled) == {"job_0"}


def test_the_exports_own_test_passes(tmp_path: Path) -> None:
    folder = page_application.written(EXPORTS, tmp_path / "exports")
    assert "1 passed" in page_application.own_tests(folder)


async def test_the_page_shows_a_job_of_its_customer_and_no_other(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_application.enter(page_application.written(EXPORTS, tmp_path / "exports"), monkeypatch)
    page = runpy.run_path("page.py")
    for tenant in ("acme", "globex"):
        operator.jobs[tenant] = {
            "job_id": f"job_{tenant}",
            "tenant_id": tenant,
            "status": "running",
            "progress": {"done": 3, "of": 30},
            "input": {"secret": 1},
        }
    async with TestClient(TestServer(page["server"]())) as client:
        shown = await client.get("/exports/job_acme/progress")
        assert await shown.json() == {
            "status": "running",
            "progress": {"done": 3, "of": 30},
            "ended": False,
        }
        for hidden in ("job_globex", "job_none"):
            assert (await client.get(f"/exports/{hidden}/progress")).status == 404
        assert "progress" in await (await client.get("/exports/job_acme")).text()


def test_the_values_of_the_small_cluster_are_the_charts(tmp_path: Path) -> None:
    helm_tools.require()
    (tmp_path / "small.yaml").write_text(SMALL)
    pods = chart.pods(chart.resources(chart.output(tmp_path / "small.yaml")))
    limits = {
        name: container["resources"]["limits"]["memory"]
        for name, pod in pods.items()
        for container in pod["spec"]["containers"]
    }
    assert limits["tide-tidegate-pipeline"] == "1Gi"
    assert limits["tide-tidegate-delivery"] == "768Mi"
