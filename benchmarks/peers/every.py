"""The rows of the tables, in their order."""

from __future__ import annotations

from peers.celery.peer import EARLY, LATE
from peers.contract import Peer
from peers.dbos.peer import DBOS

EVERY: dict[str, Peer] = {peer.name: peer for peer in (LATE, EARLY, DBOS)}
