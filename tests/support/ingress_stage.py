"""One ingress process of a test, by its environment."""

from __future__ import annotations

from ingress.http.server import run
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load

if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings, stage="ingress")
    run(settings, load(settings.topology))
