"""What processes export, against what alerts and dashboards ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.parser import text_string_to_metric_families

from support.queries import selected

OF_TARGETS = frozenset({"namespace", "job", "instance"})
"""Labels that Prometheus gives to what it scrapes."""
OF_PROMETHEUS = frozenset({"up", "ALERTS"})
"""Metrics that Prometheus makes itself."""
WITHOUT_SAMPLE: Mapping[str, frozenset[str]] = {
    "tidegate_broker_replicas_behind": frozenset({"broker"}),
    "tidegate_certificate_not_after_timestamp_seconds": frozenset({"use"}),
    "tidegate_delivery_attempts_total": frozenset({"error"}),
    "tidegate_dispatcher_dead_letters_total": frozenset({"reason"}),
    "tidegate_dispatcher_leases_lost_total": frozenset({"reason"}),
    "tidegate_dispatcher_retries_total": frozenset({"type"}),
    "tidegate_ingress_misfits_total": frozenset({"reason"}),
    "tidegate_ingress_old_key_matches_total": frozenset({"scheme"}),
    "tidegate_ingress_signature_failures_total": frozenset({"scheme", "reason"}),
    "tidegate_vault_key_age_seconds": frozenset(),
    "tidegate_worker_effects_total": frozenset({"outcome"}),
}
"""Metrics that have a sample only once something happens, and their labels. A page names them."""


def not_exported(pages: Iterable[str]) -> list[str]:
    """What queries select that no page has: metrics, and labels of metrics."""
    known = _labels(pages)
    return sorted(
        {
            f"{where}: {selector.metric} {sorted(selector.labels)}"
            for where, found in selected().items()
            for selector in found
            if selector.metric not in OF_PROMETHEUS
            and not (selector.metric in known and selector.labels <= known[selector.metric])
        }
    )


def _labels(pages: Iterable[str]) -> dict[str, frozenset[str]]:
    """The labels of each metric on the pages."""
    found: dict[str, frozenset[str]] = {}
    for page in pages:
        for family in text_string_to_metric_families(page):
            name = family.name + "_total" * (family.type == "counter")
            if not family.samples and name in WITHOUT_SAMPLE:
                found.setdefault(name, WITHOUT_SAMPLE[name] | OF_TARGETS)
            for sample in family.samples:
                labels = found.get(sample.name, OF_TARGETS) | set(sample.labels)
                found[sample.name] = labels
    return found
