"""Pages of metrics merged into one."""

from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streams.dev.layout import Member
from streams.dev.scrape import merge, sampled
from streams.telemetry import metrics_page


def page(count: int) -> str:
    registry = CollectorRegistry()
    Counter("tidegate_records", "Records.", ["topic"], registry=registry).labels("events").inc(
        count
    )
    Histogram("tidegate_commit_seconds", "Commits.", registry=registry).observe(0.01)
    return generate_latest(registry).decode()


def test_the_same_metric_of_two_processes_is_one_family_with_their_names() -> None:
    first, second = Member("dedup", "0", 1), Member("dedup", "1", 2)
    merged = merge([(first, page(3)), (second, page(4))])[0].decode()
    families = {family.name: family for family in text_string_to_metric_families(merged)}
    records = {
        (sample.labels["instance"], sample.labels["topic"]): sample.value
        for sample in families["tidegate_records"].samples
        if sample.name == "tidegate_records_total"
    }
    assert records == {("0", "events"): 3, ("1", "events"): 4}
    assert merged.count("# TYPE tidegate_records_total counter") == 1
    assert families["tidegate_commit_seconds"].type == "histogram"


def test_a_silent_process_is_down() -> None:
    merged = merge([(Member("dedup", "0", 1), None)])[0].decode()
    assert 'tidegate_up{instance="0",stage="dedup"} 0.0' in merged


def test_a_processs_own_label_is_kept() -> None:
    own = 'tidegate_lag{stage="x"} 1\n'
    assert b'tidegate_lag{instance="0",stage="x"} 1.0' in merge([(Member("d", "0", 1), own)])[0]


async def test_a_metric_of_each_process_is_sampled_and_a_silent_one_has_none() -> None:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text='position{partition="3"} 42\nposition{partition="4"} 1\n')

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    async with TestServer(app, host="127.0.0.1") as server:
        members = [Member("ingress", "0", server.port or 0), Member("ingress", "1", 1)]
        assert await sampled(members, "position", {"partition": "3"}) == [42, None]
        assert await sampled(members, "position", {"partition": "9"}) == [None, None]


def test_exemplars_of_the_processes_are_kept() -> None:
    registry, accept = CollectorRegistry(), "application/openmetrics-text"
    histogram = Histogram("tidegate_commit_seconds", "Commits.", registry=registry)
    histogram.observe(0.01, {"trace_id": "a" * 32})
    page = metrics_page(accept, registry)[0].decode()
    merged, content_type = merge([(Member("dedup", "0", 1), page)], accept)
    assert content_type.startswith(accept)
    assert merged.count(b'# {trace_id="' + b"a" * 32) == 1
