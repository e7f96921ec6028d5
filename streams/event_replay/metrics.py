"""What the carrier of replays tells Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

JOBS = Counter("tidegate_operator_replay_jobs", "Jobs that replays of events asked for.")
RUNNING = Gauge("tidegate_operator_replays_running", "Replays of events at work in this process.")
STUCK = Gauge(
    "tidegate_operator_replays_stuck", "Replays of events that could not move at their last try."
)
