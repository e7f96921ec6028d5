"""Log lines show a job and no values; the probes answer on IPv6 and close silent connections."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

from streams import telemetry
from streams.settings import Settings
from streams.telemetry import serve_probes

_RAISING = """
import structlog
from streams.settings import Settings
from streams.telemetry import configure_logging

configure_logging(Settings(log_format={log_format!r}), stage="worker")
structlog.contextvars.bind_contextvars(job_id="job_a")

def handler(token):
    raise ValueError("odd")

try:
    handler("s3" + "cret")
except ValueError as error:
    structlog.get_logger().warning("handler raised", exc_info=error)
"""


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_names_its_job_and_shows_no_values(log_format: str) -> None:
    code = _RAISING.format(log_format=log_format)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for expected in ("Traceback (most recent call last)", "in handler", "ValueError: odd", "job_a"):
        assert expected in done.stderr
    assert "s3cret" not in done.stderr


_LOGGING_ON = """
import structlog
from streams.settings import Settings
from streams.telemetry import configure_logging

configure_logging(Settings(), stage="worker")
structlog.get_logger().warning("nobody can read this")
print("went on", flush=True)
"""


def test_a_line_that_cannot_be_written_ends_nothing() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", _LOGGING_ON],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )
    assert done.stdout == "went on\n"


def test_the_probes_are_served_on_ipv6() -> None:
    port = serve_probes(Settings(host="::", probe_port=0), lambda: True)
    with urlopen(f"http://[::1]:{port}/healthz", timeout=10) as answer:
        assert answer.status == 200


def test_a_connection_that_asks_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a thread, and anybody may open some."""
    monkeypatch.setattr(telemetry, "_SILENT_SECONDS", 0.05)
    port = serve_probes(Settings(host="127.0.0.1", probe_port=0), lambda: True)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as silent:
        assert silent.recv(1) == b""


_REDACTING = """
import logging
import threading
import warnings
import structlog
from streams.redaction.redaction import Redaction
from streams.settings import Settings
from streams.telemetry import configure_logging, redact_logs

configure_logging(Settings(log_format={log_format!r}), stage="worker")
redaction = Redaction(fields=["$..pin"], presets=["mail", "card", "token"])
redaction.secrets.add("s3cret-value")
redact_logs(redaction)
log = structlog.get_logger()
class Odd:
    def __repr__(self):
        return "odd ann@example.com\\n4242424242424242"

class Silent:
    def __repr__(self):
        raise ValueError("nothing is told")

log.info("found", text="first\\nann@example.com\\n4242424242424242\\n\\tsk_live_abcdefgh12")
log.info("found", body='{{"password":"hunter22"}}', no=Odd())
log.info("found", of=[{{"a": ("x\\nann@example.com",)}}])
log.info("found", number=4242424242424242, name=ValueError("x\\n4242424242424242"))
log.info("said s3cret-value", to="ann@example.com", value={{"pin": "a-pin"}}, pin="a-pin")
try:
    raise ValueError("s3cret-value")
except ValueError:
    log.exception("raised")
    logging.getLogger("vendor").exception("said %s", "s3cret-value")
logging.getLogger("vendor").warning("two %s of one", "s3cret-value", "s3cret-value")
logging.getLogger("vendor").warning("%s", Silent())
warnings.warn("s3cret-value in a warning", stacklevel=1)
def fails():
    raise ValueError("s3cret-value in a thread")
class Lost:
    def __del__(self):
        raise ValueError("s3cret-value in the end")
thread = threading.Thread(target=fails)
thread.start()
thread.join()
Lost()
loop = {{}}
loop["loop"] = loop
log.info("deep", loop=loop)
log.info("went on")
"""


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_lines_of_all_loggers_are_redacted(log_format: str) -> None:
    code = _REDACTING.format(log_format=log_format)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("[redacted]") >= 8
    secrets = ("s3cret", "ann@", "a-pin", "42424242", "sk_live", "hunter22")
    assert [each for each in secrets if each in done.stderr] == []
    if log_format == "json":
        lines = [line for line in done.stderr.splitlines() if '"event"' in line]
        assert [json.loads(line)["event"] for line in lines].count("found") == 4
    assert "two %s of one" in done.stderr
    assert "nested too deep" in done.stderr
    assert "went on" in done.stderr
    assert "[redacted] in a thread" in done.stderr
    assert "[redacted] in a warning" in done.stderr
    assert "a line of vendor that cannot be written" in done.stderr
    assert "[redacted] in the end" in done.stderr


_OF_AN_APPLICATION = """
import logging
import structlog
from structlog.stdlib import LoggerFactory, ProcessorFormatter
from streams.redaction.redaction import Redaction
from streams.settings import Settings
from streams.telemetry import configure_logging, redact_logs

configure_logging(Settings(), stage="worker")
{application}
redaction = Redaction(fields=["$..pin"], presets=["mail"])
redaction.secrets.add("s3cret-value")
redact_logs(redaction)

def handler():
    header = "of ann@" + "example.com"
    raise ValueError("s3cret-value")

log = structlog.get_logger("shop")
try:
    handler()
except ValueError:
    log.exception("raised s3cret-value", pin="a-pin", to="ann@example.com")
log.info("went on")
"""
_RENDERED = """
structlog.configure(processors=[structlog.processors.add_log_level, {renderer}])
structlog.get_logger("shop").debug("configured")
"""
_BY_LOGGING = """
handler = logging.StreamHandler()
handler.setFormatter(ProcessorFormatter(processor=structlog.processors.JSONRenderer()))
logging.basicConfig(handlers=[handler], level="INFO")
structlog.configure(
    processors=(structlog.stdlib.add_log_level, ProcessorFormatter.wrap_for_formatter),
    logger_factory=LoggerFactory(),
)
"""
_BY_RECORDS_OF_ITS_OWN = """
def numbered(*args, **kwargs):
    record = logging.LogRecord(*args, **kwargs)
    record.number = 7
    return record

logging.setLogRecordFactory(numbered)
logging.basicConfig(format="%(number)s %(message)s", level="INFO")
structlog.configure(
    processors=[structlog.processors.KeyValueRenderer()], logger_factory=LoggerFactory()
)
"""


@pytest.mark.parametrize(
    "application",
    [
        _RENDERED.format(renderer="structlog.dev.ConsoleRenderer()"),
        _RENDERED.format(renderer="structlog.processors.JSONRenderer()"),
        _RENDERED.format(renderer="structlog.processors.KeyValueRenderer()"),
        _BY_LOGGING,
        _BY_RECORDS_OF_ITS_OWN,
    ],
    ids=["console", "json", "key and value", "logging", "records of its own"],
)
def test_lines_are_redacted_however_the_application_has_configured_them(application: str) -> None:
    code = _OF_AN_APPLICATION.format(application=application)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = done.stdout + done.stderr
    assert [each for each in ("s3cret", "ann@", "a-pin") if each in told] == []
    assert "raised [redacted]" in told
    assert "went on" in told
    assert "Logging error" not in told
