"""What a process reports about itself: log lines, metrics, liveness and readiness.

Each process has one Prometheus registry. Metrics have no tenant label (cardinality): the operator's
API has a per-tenant view. Metrics are declared where they are counted, and named
`tidegate_<stage>_...`. Traces are recorded by `streams.tracing`; a log line names the span in which
it was written.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TextIO

import structlog
from opentelemetry import trace
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Gauge,
    Metric,
    generate_latest,
)
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from streams.errors import ConfigError
from streams.process.daemon_thread import DaemonThread
from streams.redaction.redaction import Redaction
from streams.settings import Settings

_SILENT_SECONDS = 10
"""After which a connection that asks nothing is closed: each has a thread."""

OPENMETRICS = "application/openmetrics-text"
"""The type of a page that has exemplars; Prometheus asks for it."""

PROCESS = Gauge(
    "tidegate_process_info", "1, of the stage and the release of this process", ["stage", "version"]
)
READY = Gauge(
    "tidegate_process_ready",
    "1 if this process is ready to do the work of the stage, else 0; of each stage that it fuses",
    ["stage"],
)


_redaction = Redaction()
"""Takes secrets out of log lines; a worker gives the one that knows them."""


class ScrapedCollector(Collector):
    """A collector that is read at scrapes alone: registering it must not collect."""

    def describe(self) -> tuple[Metric, ...]:
        return ()


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
            _name_span,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Do not leave this to the console's renderer: it shows local variables, maybe secret.
            structlog.processors.format_exc_info,
            _without_fields,
            renderer,
            _without_secrets,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            getattr(logging, settings.log_level.upper())
        ),
        logger_factory=lambda *_: _Lines(sys.stderr),
        cache_logger_on_first_use=True,
    )


def redact_logs(redaction: Redaction) -> None:
    """Take secrets out of each log line from now on, those of the standard library, too.

    So are warnings, and errors that end a thread, which Python itself would write. If the
    application has configured structlog, its configuration stays, and redacts.
    """
    global _redaction  # noqa: PLW0603
    _redaction = redaction
    factory = logging.getLogRecordFactory()
    if not isinstance(factory, _RedactedRecords):  # else it is the one of before
        logging.setLogRecordFactory(_RedactedRecords(factory))
    warnings.showwarning = _log_warning
    _redact_structlog()
    threading.excepthook = sys.unraisablehook = _log_error


def _redact_structlog() -> None:
    given = structlog.get_config()["processors"]
    if not given or _without_secrets in given:
        return
    *before, renderer = given
    # The application's renderer may show local variables of an error that is no text yet.
    texts = (structlog.processors.format_exc_info, _without_fields)
    processors = [*before, *texts, renderer, _without_secrets]
    if isinstance(given, list):
        given[:] = processors  # loggers that were used before have this list
    else:
        structlog.configure(processors=processors)


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    log = structlog.get_logger(__name__)
    log.warning(str(message), category=category.__name__, at=f"{filename}:{lineno}")


def _log_error(raised: threading.ExceptHookArgs | sys.UnraisableHookArgs) -> None:
    if raised.exc_type is not SystemExit:  # which ends a thread in silence
        log = structlog.get_logger(__name__)
        log.error("an error ended a thread, or nobody awaited it", exc_info=raised.exc_value)


def _without_fields(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    try:
        return _redaction.members(dict(event))
    except RecursionError:  # one of them contains itself
        return {"event": str(event.get("event")), "left_out": "values that are nested too deep"}


def _without_secrets(_logger: object, _method: str, line: Any) -> Any:
    if isinstance(line, bytes):
        return _redaction.text(line.decode("utf-8", "replace")).encode()
    return _redaction.text(line) if isinstance(line, str) else line


class _RedactedRecords:
    """Makes the records of the standard library, by what the application has set for it."""

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make(*args, **kwargs)
        if isinstance(record.msg, dict):  # structlog's formatter of such records wants it so
            record.msg = _without_fields(None, "", record.msg)
        else:
            record.msg, record.args = _redaction.text(_message_of(record)), None
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            record.exc_text = _redaction.text(text)
        return record


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # its arguments do not fit the message
        with suppress(Exception):
            return f"{record.msg} {record.args}"
    return f"a line of {record.name} that cannot be written"


class _Lines(structlog.WriteLogger):
    """Writes log lines; one that cannot be written (a full disk, a closed pipe) is dropped.

    Otherwise the error would end whatever wanted to tell something.
    """

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    debug = info = warning = error = critical = msg


def serve_probes(
    settings: Settings, ready: Callable[[], bool], why: Callable[[], str | None] = lambda: None
) -> int:
    """Serve /metrics, /healthz and /readyz from a daemon thread; returns the bound port.

    `why` gives the reason while the process is not ready. Liveness never asks Kafka: a broker that
    is away is no reason to restart this process.

    Raises:
        ConfigError: the port is taken.
    """

    class Probe(BaseHTTPRequestHandler):
        timeout = _SILENT_SECONDS

        def do_GET(self) -> None:
            accept = self.headers.get("Accept")
            status, body, content_type = _answer(self.path.partition("?")[0], accept, ready, why)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: scrapes are not worth a line."""

    try:
        kind = _Ipv6Server if ":" in settings.host else ThreadingHTTPServer
        server = kind((settings.host, settings.probe_port), Probe)
    except OSError as error:
        raise ConfigError(
            f"cannot serve the probes on {settings.host}:{settings.probe_port}: {error.strerror}; "
            "choose another port with --probe-port"
        ) from error
    DaemonThread("probes", server.serve_forever).start()
    # A forked child that outlives this process would keep its successor from the port.
    os.register_at_fork(after_in_child=server.socket.close)
    return int(server.server_address[1])


class _Ipv6Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def show_ready(stages: Iterable[str], ready: Callable[[], bool]) -> None:
    """Show on /metrics, too, whether this process can do the work of these stages."""
    for stage in stages:
        READY.labels(stage).set_function(ready)


def readiness(ready: bool, why: str | None = None) -> tuple[int, str]:
    """The status and the text that /readyz answers with; `why` is the reason if not ready."""
    if ready:
        return 200, "ready\n"
    return 503, f"not ready: {why}\n" if why else "not ready\n"


def metrics_page(accept: str | None, registry: CollectorRegistry = REGISTRY) -> tuple[bytes, str]:
    """All metrics and their content type; as OpenMetrics, with exemplars, if the scraper takes it.

    `accept` is its header. Its version is not looked at: anybody may scrape, with any header.
    """
    if OPENMETRICS not in (accept or ""):
        return generate_latest(registry), CONTENT_TYPE_LATEST
    page: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
    return page, openmetrics.CONTENT_TYPE_LATEST


def _name_span(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"], event["span_id"] = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return event


def _answer(
    path: str, accept: str | None, ready: Callable[[], bool], why: Callable[[], str | None]
) -> tuple[int, bytes, str]:
    if path == "/metrics":
        return 200, *metrics_page(accept)
    if path == "/healthz":
        return 200, b"ok\n", CONTENT_TYPE_LATEST
    if path == "/readyz":
        status, text = readiness(ready(), why())
        return status, text.encode(), CONTENT_TYPE_LATEST
    return 404, b"not found\n", CONTENT_TYPE_LATEST
