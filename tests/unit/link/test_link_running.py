"""A stage with a link is served where the settings say."""

from __future__ import annotations

import pytest
from support.counting import counting_stage
from support.linked_stage import Roster, fused_linked_stage, linked_stage

from streams.errors import ConfigError
from streams.link.running import served_link
from streams.link.server import LinkServer
from streams.link.terms import Terms
from streams.runtime.stage import AnyStage
from streams.settings import Settings
from streams.topology.load import load

TOPOLOGY = load()


@pytest.mark.parametrize("stage", [linked_stage(Roster()), fused_linked_stage(Roster())])
def test_workers_are_told_the_terms_of_the_topology(stage: AnyStage) -> None:
    settings = Settings(link_listen="127.0.0.1:0", instance="7")
    server = served_link(stage, TOPOLOGY, settings)
    assert isinstance(server, LinkServer)
    pools = frozenset(TOPOLOGY.pools)
    expected = Terms(f"{stage.name}-7", TOPOLOGY.partitions, pools, TOPOLOGY.leases)
    assert server.link.terms == expected


def test_a_stage_without_a_link_or_a_place_is_not_served() -> None:
    assert served_link(counting_stage(), TOPOLOGY, Settings(link_listen="127.0.0.1:0")) is None
    assert served_link(linked_stage(Roster()), TOPOLOGY, Settings()) is None


def test_a_malformed_place_ends_the_start() -> None:
    with pytest.raises(ConfigError, match="TIDEGATE_LINK_LISTEN"):
        served_link(linked_stage(Roster()), TOPOLOGY, Settings(link_listen="somewhere"))


def test_an_owner_without_a_vault_key_does_not_start() -> None:
    server = served_link(linked_stage(Roster()), TOPOLOGY, Settings(link_listen="127.0.0.1:0"))
    assert server is not None
    with pytest.raises(ConfigError, match="TIDEGATE_VAULT_KEY_FILE"):
        server.start(lambda _: None)
    server.stop()
