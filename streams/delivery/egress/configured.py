"""The policy that a process's settings describe: the same for operator and delivery stage."""

from __future__ import annotations

from dataclasses import replace

from streams.delivery.egress.policy import EgressPolicy
from streams.settings import Settings


def egress_policy(settings: Settings) -> EgressPolicy:
    """Return where outgoing requests may go, by the settings `egress_*`."""
    strict = EgressPolicy()
    return replace(
        strict,
        allowed_networks=settings.egress_allow_networks,
        allow_http=settings.egress_allow_http,
        denied_ports=strict.denied_ports | set(settings.egress_deny_ports),
        own_hosts=frozenset(host.lower() for host in settings.egress_own_hosts),
        proxy=settings.egress_proxy,
        connections_per_host=settings.egress_connections_per_host,
        ca_file=settings.egress_ca_file,
    )
