"""What a process reports about itself: log lines, metrics, liveness and readiness.

Each process has one Prometheus registry. Metrics have no tenant label (cardinality): the operator's
API has a per-tenant view. Metrics are declared where they are counted, and named
`tidegate_<stage>_...`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings


def configure_logging(settings: Settings, **bound: str) -> None:
    """Log to standard error; every line has the `bound` values (stage, instance)."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            lambda _logger, _method, event: {**bound, **event},
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Do not leave this to the console's renderer: it shows local variables, maybe secret.
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            getattr(logging, settings.log_level.upper())
        ),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def serve_probes(
    settings: Settings, ready: Callable[[], bool], why: Callable[[], str | None] = lambda: None
) -> int:
    """Serve /metrics, /healthz and /readyz from a daemon thread; returns the bound port.

    `why` gives the reason while the process is not ready. Liveness never asks Kafka: a broker that
    is away is no reason to restart this process.
    """

    class Probe(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = _answer(self.path.partition("?")[0], ready, why)
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE_LATEST)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: scrapes are not worth a line."""

    server = ThreadingHTTPServer((settings.host, settings.probe_port), Probe)
    server.daemon_threads = True
    DaemonThread("probes", server.serve_forever).start()
    return int(server.server_address[1])


def readiness(ready: bool, why: str | None = None) -> tuple[int, str]:
    """The status and the text that /readyz answers with; `why` is the reason if not ready."""
    if ready:
        return 200, "ready\n"
    return 503, f"not ready: {why}\n" if why else "not ready\n"


def _answer(
    path: str, ready: Callable[[], bool], why: Callable[[], str | None]
) -> tuple[int, bytes]:
    if path == "/metrics":
        return 200, generate_latest()
    if path == "/healthz":
        return 200, b"ok\n"
    if path == "/readyz":
        status, text = readiness(ready(), why())
        return status, text.encode()
    return 404, b"not found\n"
