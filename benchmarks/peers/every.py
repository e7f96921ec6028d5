"""The rows of the tables, in their order."""

from __future__ import annotations

from peers.absurd.peer import PEER as ABSURD
from peers.celery.peer import EARLY, LATE
from peers.contract import Peer
from peers.dbos.peer import DBOS, TOGETHER
from peers.procrastinate.peer import PEER as PROCRASTINATE
from peers.restate.peer import PEER as RESTATE
from peers.temporal.peer import LOCAL, REMOTE
from peers.tidegate.peer import APART, FUSED

EVERY: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        FUSED,
        APART,
        LATE,
        EARLY,
        PROCRASTINATE,
        ABSURD,
        DBOS,
        TOGETHER,
        RESTATE,
        REMOTE,
        LOCAL,
    )
}
