"""The page of metrics: as text, or with exemplars for scrapers that take OpenMetrics."""

from __future__ import annotations

from pkgutil import walk_packages

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Histogram, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support.dev_process import get

import ingress
import streams
from streams.errors import ConfigError
from streams.settings import Settings
from streams.telemetry import metrics_page, serve_probes, show_ready

OF_PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
EXEMPLAR = {"trace_id": "a" * 32, "span_id": "b" * 16}


def families(page: bytes) -> list[Metric]:
    parsed = text_string_to_metric_families(page.decode())  # type: ignore[no-untyped-call]
    return list(parsed)


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Histogram("taken_seconds", "Taken.", registry=registry).observe(0.1, EXEMPLAR)
    return registry


@pytest.mark.parametrize("accept", [None, "", "*/*", "text/plain"])
def test_without_being_asked_it_is_text_without_exemplars(
    registry: CollectorRegistry, accept: str | None
) -> None:
    body, content_type = metrics_page(accept, registry)
    assert content_type.startswith("text/plain")
    assert b"trace_id" not in body


def test_prometheus_gets_exemplars(registry: CollectorRegistry) -> None:
    body, content_type = metrics_page(OF_PROMETHEUS, registry)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    samples = [sample for family in families(body) for sample in family.samples]
    assert [s.exemplar.labels for s in samples if s.exemplar] == [EXEMPLAR]


@pytest.mark.parametrize("version", ["", "abc", "1.x", "9.0.0", "1.0.0-rc1", "1" * 5_000])
def test_whatever_version_a_scraper_asks_for_it_gets_one_that_we_have(
    registry: CollectorRegistry, version: str
) -> None:
    """Scrapes need no token: what a stranger's header says is neither believed nor repeated."""
    body, content_type = metrics_page(f"application/openmetrics-text; version={version}", registry)
    assert content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert body.endswith(b"# EOF\n")


def test_every_metric_of_the_product_is_valid_openmetrics() -> None:
    for package in (ingress, streams):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith(".metrics"):
                __import__(module.name)
    body, _ = metrics_page(OF_PROMETHEUS)
    names = {family.name for family in families(body)}
    assert {"tidegate_stage_commit_seconds", "tidegate_traces_spans_lost"} <= names


def test_a_process_shows_of_each_stage_whether_it_is_ready() -> None:
    ready = [False]
    show_ready(["one", "other"], lambda: ready[0])
    shown = [REGISTRY.get_sample_value("tidegate_process_ready", {"stage": "one"})]
    ready[0] = True
    shown += [
        REGISTRY.get_sample_value("tidegate_process_ready", {"stage": stage})
        for stage in ("one", "other")
    ]
    assert shown == [0, 1, 1]


def test_the_probes_serve_it() -> None:
    port = serve_probes(Settings(), lambda: True)
    status, text = get(f"http://127.0.0.1:{port}/metrics", {"Accept": OF_PROMETHEUS})
    assert (status, text.endswith("# EOF\n")) == (200, True)
    assert "# EOF" not in get(f"http://127.0.0.1:{port}/metrics")[1]


def test_a_taken_port_is_named_with_its_flag() -> None:
    port = serve_probes(Settings(), lambda: True)
    with pytest.raises(ConfigError, match=rf"probes on 127.0.0.1:{port}: .*--probe-port"):
        serve_probes(Settings(probe_port=port), lambda: True)
