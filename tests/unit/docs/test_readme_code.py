"""What README and docs/handlers.md show is true: applications run, topologies load, tests exist."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from support.worker_bench import bench

from streams.new.project import make
from streams.serde.records import Ended, EventInfo, Outcome
from streams.testing import Bench
from streams.topology.load import load
from streams.worker.app import App
from streams.worker.app_loader import load_app

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
HANDLERS = (ROOT / "docs/handlers.md").read_text()


def block(language: str, document: str = README) -> str:
    """A document's only code block of a language."""
    blocks = rf"^```{language}\n(.*?)^```$"
    found: list[str] = re.findall(blocks, document, re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"it has {len(found)} blocks of {language}"
    return found[0]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """The handlers page's application, as `tidegate dev --app desk:app` loads it."""
    (tmp_path / "desk.py").write_text(block("python", HANDLERS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "desk", raising=False)
    yield load_app("desk:app")
    sys.modules.pop("desk", None)


def test_the_readme_shows_the_application_that_new_makes(tmp_path: Path) -> None:
    make(tmp_path / "helpdesk")
    assert block("python") == (tmp_path / "helpdesk/app.py").read_text()
    assert block("yaml") == (tmp_path / "helpdesk/topology.yaml").read_text()


async def test_the_handlers_page_runs_for_a_submission_and_stops_where_it_says(app: App) -> None:
    order = '{"order_id": "4711", "email": "a@example.com"}'
    withdrawn = EventInfo(
        "evt_1",
        "shop",
        "order.refund_asked",
        None,
        None,
        1,
        "application/json",
        None,
        None,
        "e1",
        {"status": "withdrawn"},
    )
    async with bench(app) as at:
        done: Ended = await at.ended(at.give("refund_order", input=order))
        outcomes = at.bodies(Outcome)
        refused: Ended = await at.ended(at.give("refund_order", input="{}"))
        stopped: Ended = await at.ended(at.give("refund_order", event=withdrawn))
    assert orjson.loads(done.result or "null") == {"text": "Order 4711 is paid back."}
    assert [(o.action, o.status) for o in outcomes] == [
        ("payment:refund/order", "done"),
        ("email:send/refunded", "done"),
    ]
    assert (refused.status, stopped.status) == ("failed", "cancelled")


@pytest.mark.parametrize(("key", "refunds"), [(None, 2), ("refund 4711", 1)])
def test_the_handlers_page_refunds_once_for_each_job(
    app: App, key: str | None, refunds: int
) -> None:
    """The key of an effect reaches no further than its job; that of a submission is one job."""
    order = {"order_id": "4711", "email": "a@example.com"}
    with Bench(app) as at:
        jobs = [at.submit("refund_order", order, key=key).run() for _ in range(2)]
        assert {job.status for job in jobs} == {"succeeded"}
        assert [call.tool for call in at.calls].count("payment:refund") == refunds


def test_the_handlers_pages_topology_names_its_job(app: App, tmp_path: Path) -> None:
    overlay = tmp_path / "pools.yaml"
    overlay.write_text(block("yaml", HANDLERS))
    topology = load(overlay)
    assert set(topology.job_types) == set(app.jobs)
    assert {job.pool for job in topology.job_types.values()} <= set(topology.pools)


def test_every_test_that_is_named_exists() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", README))
    assert named
    assert {name for name in named if f"def {name}(" not in sources} == set()
