"""When traces are recorded, and what is said if they cannot be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streams.errors import ConfigError
from streams.tracing.wanted import Wanted, wanted

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
GIVEN = Wanted("http/protobuf", "parentbased_always_on", 1.0, 2_048, 512, 5_000)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_TRACES_SAMPLER": "always_on"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {**ENDPOINT, "OTEL_SDK_DISABLED": "True"},
        {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318"},
    ],
)
def test_traces_are_off_unless_an_endpoint_is_named(environ: dict[str, str]) -> None:
    assert wanted(environ) is None


def test_the_standard_variables_say_how() -> None:
    assert wanted(ENDPOINT) == GIVEN
    assert wanted({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/v1/traces"}) == GIVEN
    told = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.01",
        "OTEL_BSP_MAX_QUEUE_SIZE": "100",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    found = Wanted("grpc", "parentbased_traceidratio", 0.01, 100, 100, 200)
    assert wanted(told) == found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "user:s3cret@collector:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "user:s3cret@collector:4318/v1/traces"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_TRACES_SAMPLER_ARG", "1%"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
        ("OTEL_TRACES_SAMPLER_ARG", "nan"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Bearer s3cret"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b,s3cret"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name: str, value: str) -> None:
    environ = {**ENDPOINT, "OTEL_TRACES_SAMPLER": "traceidratio", name: value}
    with pytest.raises(ConfigError, match=name) as refused:
        wanted(environ)
    assert "s3cret" not in str(refused.value)


RUNS = """
import sys
import streams.cli.main as cli

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if {hidden!r} and name.startswith({hidden!r}):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import streams.stages
from streams.settings import Settings
from streams.tracing.process import recorded
for stage in streams.stages.STAGES.values():
    if stage.name not in ("operator", "analytics"):
        streams.stages.load(stage.target)
import streams.operator.run, ingress.receive.admission
try:
    with recorded("dedup", Settings()):
        pass
except Exception as error:
    print(type(error).__name__, error)
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "grpc", "google"))])
"""


def told(hidden: str = "", **environ: str) -> list[str]:
    """What a process says that begins to record traces, and which modules it has."""
    done = subprocess.run(
        [sys.executable, "-c", RUNS.format(hidden=hidden)],
        env={"PATH": "", **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("environ", [{}, {**ENDPOINT, "OTEL_SDK_DISABLED": "true"}])
def test_while_traces_are_off_no_stage_imports_the_sdk(environ: dict[str, str]) -> None:
    assert told(**environ) == ["[]"]


@pytest.mark.parametrize("hidden", ["opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.grpc"])
def test_a_missing_extra_is_named_with_its_remedy(hidden: str) -> None:
    said, modules = told(hidden, **ENDPOINT)
    assert said.startswith("ConfigError OTEL_EXPORTER_OTLP_ENDPOINT asks for traces")
    assert "pip install 'tidegate[otel]'" in said
    assert modules == "[]"
    assert told(hidden) == ["[]"], "without an endpoint nothing is missed"


def test_with_an_endpoint_the_sdk_is_imported() -> None:
    *_, modules = told(**ENDPOINT)
    assert "opentelemetry.sdk" in modules
