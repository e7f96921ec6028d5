"""What the owner's end of the link counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

CONNECTED = Gauge("tidegate_link_workers", "Workers that are connected to this process")
REFUSED = Counter("tidegate_link_refused", "Connections that this process refused", ["reason"])
REQUESTS = Counter(
    "tidegate_link_requests",
    "Requests of workers beside their commands, by kind and by what became of them",
    ["kind", "outcome"],
)
BODY_BYTES = Gauge(
    "tidegate_link_body_bytes", "Memory that bodies on their way to workers take, of 64 MiB"
)
