"""What the owner's end of the link counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

CONNECTED = Gauge("tidegate_link_workers", "Workers that are connected to this process")
REFUSED = Counter("tidegate_link_refused", "Connections that this process refused", ["reason"])
