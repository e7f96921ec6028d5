"""Exporting never holds up or fails the work: what cannot be exported is counted, and told once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from support.collector import Collector, over_grpc, over_http
from support.conditions import PATIENCE_SECONDS, eventually
from support.recorded_spans import SAMPLED, recording

from streams.errors import ConfigError
from streams.settings import Settings
from streams.tracing import loss, spans
from streams.tracing.process import recorded
from streams.tracing.sdk import BoundedQueue, provider_of, sampler
from streams.tracing.wanted import Wanted

QUEUE, BATCH = 20, 5
SDK_SECONDS = 10.0
"""What the SDK by itself would wait for a collector's answer; the end of a process waits for 2."""


class Exporter(SpanExporter):
    """Answers as it is told; `hold` keeps it waiting."""

    def __init__(self) -> None:
        self.result: SpanExportResult | Exception = SpanExportResult.SUCCESS
        self.hold = threading.Event()
        self.hold.set()
        self.exports = self.answers = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.exports += 1
        self.hold.wait(PATIENCE_SECONDS)
        self.answers += 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@contextmanager
def queued(exporter: Exporter) -> Iterator[TracerProvider]:
    wanted = Wanted("http/protobuf", "always_on", 1.0, QUEUE, BATCH, 10)
    provider = provider_of(wanted, {}, BoundedQueue(wanted, exporter))
    try:
        yield provider
    finally:
        exporter.hold.set()
        provider.shutdown()


def end_spans(provider: TracerProvider, number: int) -> None:
    for _ in range(number):
        provider.get_tracer("test").start_span("work").end()


def counted(reason: str) -> float:
    return float(loss.LOST.labels(reason)._value.get())


def lines(logs: Sequence[Any]) -> list[tuple[str, str | None]]:
    return [(line["event"].partition(":")[0], line.get("reason")) for line in logs]


def test_a_slow_collector_costs_no_time_and_the_rest_is_counted() -> None:
    exporter, before = Exporter(), counted("queue")
    exporter.hold.clear()
    with queued(exporter) as provider, structlog.testing.capture_logs() as logs:
        end_spans(provider, 1)
        eventually(lambda: exporter.exports, what="the exporter hangs")
        end_spans(provider, QUEUE + 7)
        assert counted("queue") - before == 7
        assert exporter.answers == 0, "the work has waited for the collector"
    assert lines(logs) == [("spans are lost", "queue")]


@pytest.mark.parametrize("answer", [SpanExportResult.FAILURE, ValueError("of the exporter")])
def test_what_a_collector_does_not_take_is_counted_and_told_once(answer: Any) -> None:
    exporter, lost, exported = Exporter(), counted("export"), loss.EXPORTED._value.get()
    exporter.result = answer
    with queued(exporter) as provider, structlog.testing.capture_logs() as logs:
        end_spans(provider, BATCH)
        eventually(lambda: counted("export") - lost == BATCH, what="counted")
        end_spans(provider, BATCH)
        eventually(lambda: counted("export") - lost == 2 * BATCH, what="counted again")
        exporter.result = SpanExportResult.SUCCESS
        end_spans(provider, BATCH)
        eventually(lambda: loss.EXPORTED._value.get() - exported == BATCH, what="taken")
    assert lines(logs) == [
        ("spans are lost", "export"),
        ("the collector takes spans again", None),
    ]


def unused_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("collector", ["away", "silent"])
def test_a_process_ends_soon_and_says_nothing_of_the_sdk_if_the_collector_is_away(
    protocol: str,
    collector: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with silent() as hanging:
        port = hanging if collector == "silent" else unused_port()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        with recorded("dedup", Settings()):
            for _ in range(1_000):
                with spans.root(None, "work", {}):
                    pass
            began = time.monotonic()
        assert time.monotonic() - began < SDK_SECONDS
    assert "opentelemetry" not in capfd.readouterr().err.lower()
    assert not spans.on()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_the_last_spans_of_a_process_are_exported_with_what_describes_it(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (over_grpc if protocol == "grpc" else over_http)() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        with recorded("dedup", Settings()), spans.root(SAMPLED, "work", {}):
            pass
    assert [(span.service, span.name) for span in collector.spans] == [("tidegate-dedup", "work")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SERVICE_NAME", "edge"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=edge,a=b")],
)
def test_the_environment_names_the_service(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with over_http() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret")
        monkeypatch.setenv(name, value)
        with recorded("dedup", Settings()), spans.root(SAMPLED, "work", {}):
            pass
    assert services(collector) == {"edge"}
    assert [each["authorization"] for each in collector.headers] == ["Bearer s3cret"]


def services(collector: Collector) -> set[str]:
    return {span.service for span in collector.spans}


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SPAN_LINK_COUNT_LIMIT", "many"), ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip")],
)
def test_a_value_that_the_sdk_cannot_use_ends_a_process_with_one_line(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{unused_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name), recorded("dedup", Settings()):
        pass


def test_a_sampler_that_records_nothing_records_no_batch_either() -> None:
    assert sampler(Wanted("grpc", "always_off", 1.0, 1, 1, 1)) is ALWAYS_OFF
    with recording("traceidratio", 0.0) as found, spans.root(SAMPLED, "work", {}):
        pass
    assert found.all == []
