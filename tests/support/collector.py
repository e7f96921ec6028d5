"""A collector of traces in this process: OTLP over HTTP or gRPC, in memory."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True)
class Traced:
    """A span as the collector got it; `links` has why each is there, and its trace and span."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    began: int
    ended: int
    failed: bool
    attributes: dict[str, Any]
    links: dict[tuple[str, str], str]
    raw: bytes = field(repr=False)


class Collector:
    """What came, in the order in which it came."""

    def __init__(self) -> None:
        self.spans: list[Traced] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Keep the spans of a request."""
        for resource in request.resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_traced(service, span) for span in scope.spans]

    def of(self, trace_id: str) -> list[Traced]:
        """The spans of one trace, in the order in which they began."""
        found = [span for span in self.spans if span.trace_id == trace_id]
        return sorted(found, key=lambda span: span.began)


@contextmanager
def over_http() -> Iterator[Collector]:
    """A collector that takes OTLP over HTTP at its `url`."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.headers.append({k.lower(): v for k, v in self.headers.items()})
            assert self.path == "/v1/traces"
            collector.take(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def over_grpc() -> Iterator[Collector]:
    """A collector that takes OTLP over gRPC at its `url`."""
    collector = Collector()

    class Servicer(TraceServiceServicer):
        def Export(self, request: ExportTraceServiceRequest, context: Any) -> Any:
            collector.take(request)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(Servicer(), server)  # type: ignore[no-untyped-call]
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()


def tree(spans: Sequence[Traced]) -> list[str]:
    """The spans as an indented list, children in the order in which they began."""
    known = {span.span_id for span in spans}

    def below(parent: Traced | None, depth: int) -> Iterator[str]:
        for span in spans:
            root = span.parent not in known
            if root if parent is None else span.parent == parent.span_id:
                yield "  " * depth + span.name
                yield from below(span, depth + 1)

    return list(below(None, 0))


def _traced(service: str, span: OtlpSpan) -> Traced:
    return Traced(
        service=service,
        name=span.name,
        kind=OtlpSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        began=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        attributes=_values(span.attributes),
        links={
            (link.trace_id.hex(), link.span_id.hex()): _values(link.attributes).get(
                "tidegate.link", ""
            )
            for link in span.links
        },
        raw=span.SerializeToString(),
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
