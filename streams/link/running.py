"""Runs a stage that owns partitions, with the server at which its workers dial it."""

from __future__ import annotations

from functools import partial

import structlog

from streams.link.listening import listening
from streams.link.owner import Owner
from streams.link.server import LinkServer
from streams.link.services import Services
from streams.link.terms import Terms
from streams.process.boot_clock import boot_seconds
from streams.runtime.link import LinkService
from streams.runtime.runner import run_stage
from streams.runtime.stage import AnyStage
from streams.settings import Settings
from streams.topology.model import Topology

log = structlog.get_logger(__name__)


def run_owner(stage: AnyStage, topology: Topology, settings: Settings) -> None:
    """Run a stage as `run_stage` does; one with a link is served where the settings say.

    Raises:
        ConfigError: also if it cannot be served there, or the vault's key or its token is missing.
    """
    run_stage(stage, topology, settings, link=served_link(stage, topology, settings))


def served_link(stage: AnyStage, topology: Topology, settings: Settings) -> LinkService | None:
    """What serves a stage's link; None for a stage without one, or if no place is set.

    Raises:
        ConfigError: the place is malformed.
    """
    place = listening(settings)
    if stage.link is None:
        return None
    if place is None:
        log.warning("no worker can be connected: set TIDEGATE_LINK_LISTEN", stage=stage.name)
        return None
    owner = Owner(stage.link, terms_of(stage.name, topology, settings), boot_seconds)
    return LinkServer(owner, partial(Services, settings, topology, stage.name), place)


def terms_of(stage: str, topology: Topology, settings: Settings) -> Terms:
    """What the process of a stage tells its workers."""
    name, pools = f"{stage}-{settings.instance}", frozenset(topology.pools)
    return Terms(name, topology.partitions, pools, topology.leases)
