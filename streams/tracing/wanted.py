"""Whether traces are wanted, and how: the standard variables `OTEL_*`, checked at the start.

Source: OpenTelemetry specification, "SDK environment variables" and "OTLP exporter configuration".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, cast

from streams.errors import ConfigError

Protocol = Literal["grpc", "http/protobuf"]
_PROTOCOLS = ("grpc", "http/protobuf")
SAMPLERS = (
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
)
_RATIO = "traceidratio"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PACKAGES = (
    "opentelemetry.sdk",
    "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry.exporter.otlp.proto.grpc",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to export: at most `batch` spans at a time, every `delay_ms` at the latest, of a queue of
    at most `queue` spans. The exporter reads endpoint, headers and the like by itself."""

    protocol: Protocol
    sampler: str
    ratio: float
    queue: int
    batch: int
    delay_ms: int


def wanted(environ: Mapping[str, str]) -> Wanted | None:
    """How traces are wanted; None if no endpoint is named, or the SDK or the exporter is off.

    Raises:
        ConfigError: a variable has a value that cannot be used, or the extra is not installed.
    """
    given = {name: value.strip() for name, value in environ.items() if name.startswith("OTEL_")}
    source = _TRACES_ENDPOINT if given.get(_TRACES_ENDPOINT) else _ENDPOINT
    endpoint = given.get(source)
    if not endpoint or given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    exporter = given.get("OTEL_TRACES_EXPORTER") or "otlp"
    if exporter == "none":
        return None
    if exporter != "otlp":
        raise ConfigError(f"OTEL_TRACES_EXPORTER={exporter}: only otlp and none are supported")
    require_sdk()
    _check_headers(given)
    found = _read(given)
    if found.protocol != "grpc" and not endpoint.startswith(("http://", "https://")):
        # The value may hold a password.
        raise ConfigError(f"{source} is no URL: write http:// or https:// first")
    return found


def require_sdk() -> None:
    """Raise ConfigError unless the extra `tidegate[otel]` is installed."""
    for package in _PACKAGES:
        if not _is_installed(package):
            raise ConfigError(
                f"{_ENDPOINT} asks for traces, but {package} is not installed: "
                "pip install 'tidegate[otel]', or unset it"
            )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:  # a package above it is missing
        return False


def _check_headers(given: Mapping[str, str]) -> None:
    """Refuse what the exporter would leave out in silence; the value may be a secret."""
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        if any("=" not in each for each in given.get(name, "").split(",") if each.strip()):
            raise ConfigError(f"{name}: write name=value, URL-encoded, several with commas")


def _read(given: Mapping[str, str]) -> Wanted:
    protocol = (
        given.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or given.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol}: choose {' or '.join(_PROTOCOLS)}"
        )
    sampler = (given.get("OTEL_TRACES_SAMPLER") or "parentbased_always_on").lower()
    if sampler not in SAMPLERS:
        raise ConfigError(f"OTEL_TRACES_SAMPLER={sampler}: choose one of {', '.join(SAMPLERS)}")
    queue = _number(given, "OTEL_BSP_MAX_QUEUE_SIZE", 2_048)
    return Wanted(
        cast("Protocol", protocol),
        sampler,
        _ratio(given.get("OTEL_TRACES_SAMPLER_ARG")) if sampler.endswith(_RATIO) else 1.0,
        queue,
        min(queue, _number(given, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
        _number(given, "OTEL_BSP_SCHEDULE_DELAY", 5_000),
    )


def _ratio(text: str | None) -> float:
    try:
        ratio = float(text or 1.0)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ConfigError(
            f"OTEL_TRACES_SAMPLER_ARG={text}: write the part to record, from 0 to 1, such as 0.01"
        )
    return ratio


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name) or str(default)
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"{name}={text}: write a whole number above 0")
    return int(text)
