"""`tidegate delivery`: the stage as a process, with its sender and what that reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streams.delivery.bodies import KafkaBodies
from streams.delivery.egress.configured import egress_policy
from streams.delivery.kafka_history import KafkaHistory
from streams.delivery.requests import Requests
from streams.delivery.sender import Fault, HttpSender
from streams.delivery.stage import stage
from streams.runtime.runner import run_stage
from streams.settings import Settings
from streams.tenants.follower import TenantsFollower, log_unusable
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault, open_vault
from streams.vault.keyring import DataKeyring


def run(settings: Settings, topology: Topology) -> None:
    """Deliver until SIGTERM or SIGINT.

    Requests that are under way then have 5 s to end. One that takes longer is given up; the next
    process sends it again.

    Raises:
        ConfigError: a key file is missing, or an egress setting cannot be used.
        StageFailed: the stage cannot go on, or its copy of `tenants` is no longer updated.
    """
    vault = open_vault(settings)
    with _sending(settings, topology, vault) as (sender, history):
        made = stage(topology, sender, history)
        run_stage(made, topology, settings, sender.drained)


@contextmanager
def _sending(
    settings: Settings, topology: Topology, vault: Vault
) -> Iterator[tuple[HttpSender, KafkaHistory]]:
    """The sender and its sources, running; an error of any of them ends the stage."""
    fault = Fault()
    keyring = DataKeyring(vault)
    follower = TenantsFollower(
        settings, topology, "delivery", keyring.apply, log_unusable, fault.occurred
    )
    bodies = KafkaBodies(settings, keyring, fault.occurred)
    history = KafkaHistory(settings, fault.occurred)
    sender = HttpSender(egress_policy(settings), Requests(vault, bodies), fault)
    parts = (follower, bodies, history, sender)
    for part in parts:
        part.start()
    try:
        yield sender, history
    finally:
        for part in reversed(parts):
            part.stop()
