"""The analytics stage as a child process of a test."""

from __future__ import annotations

from streams.analytics.run import run
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load

if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings, stage="analytics", instance=settings.instance)
    run(settings, load())
