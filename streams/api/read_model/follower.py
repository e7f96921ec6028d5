"""The thread that folds the topics into the read model, and continues after every fault."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing

import structlog
from confluent_kafka import KafkaException

from streams.api import STAGE
from streams.api.read_model import positions
from streams.api.read_model.database import Database, is_damage, transaction
from streams.api.read_model.fold_session import FoldSession, Lag
from streams.api.read_model.positions import Untrusted
from streams.api.read_model.projections import kept_ms
from streams.api.read_model.row_notifier import FOLDED
from streams.api.rows.table import RowKey
from streams.api.tables import TABLES, TALLIES
from streams.errors import KafkaUnavailable
from streams.kafka.clients import wait_for_broker
from streams.kafka.failures import Outage
from streams.kafka.offsets import Place
from streams.process.daemon_thread import DaemonThread
from streams.process.wall_clock import wall_ms
from streams.runtime import metrics
from streams.settings import Settings
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

POSITIONS = "positions"
"""With a partition, the key under which newer rows of that partition are announced."""

_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 0.05
"""Where all partitions stand is asked so often, which takes longer than to fold a few records."""
_HOUSEKEEPING_SECONDS = 60.0
_EXPIRED_AT_ONCE = 5_000
"""Rows of a table that are deleted at a time: meanwhile nothing is folded."""
_SILENCE_SECONDS = 5.0
"""The broker is asked every second; an answer older than this no longer shows the lag."""


class Follower:
    """Follows the topics from `start` to `stop`; any thread may use the other members."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        database: Database,
        announce: Callable[[Iterable[RowKey]], None],
        hurry: threading.Event,
    ) -> None:
        self._settings = settings
        kept = ((table, kept_ms(table, settings, topology)) for table in TABLES)
        self._expiring = [(table.expire, age) for table, age in kept if age is not None]
        self._expiring += [(tally.expire, tally.kept_ms) for tally in TALLIES]
        self._database = database
        self._announce = announce
        self._hurry = hurry
        self._thread = DaemonThread("follower", self._run)
        self._outage = Outage()
        self._lag: Lag | None = None
        self._last = Lag(0, 0.0, wall_ms())
        self._folded: Mapping[Place, int] = {}
        self._said: str | None = None

    def start(self) -> None:
        metrics.LAG_SECONDS.labels(STAGE).set_function(
            lambda: seconds_behind(self._last, wall_ms())
        )
        self._thread.start()

    def stop(self) -> None:
        """End after the current batch; a thread that waits for a broker ends with the process."""
        self._thread.stop(3)

    @property
    def ready(self) -> bool:
        """Whether the model has caught up with the topics since it last began to follow them."""
        return self._lag is not None

    @property
    def lag(self) -> Lag | None:
        """The lag; None until the model has caught up since it last began to follow."""
        return self._lag

    def folded(self, place: Place) -> int:
        """Return the offset before which all records of a partition are rows; -1 while unknown."""
        return self._folded.get(place, -1)

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            try:
                wait_for_broker(self._settings)
                self._follow()
            except Untrusted as error:
                self._rebuild(str(error))
            except sqlite3.Error as error:
                self._rebuild(str(error)) if is_damage(error) else self._wait(error)
            except (KafkaException, KafkaUnavailable) as error:
                self._wait(error)
            except Exception as error:
                # An unforeseen error must not end this thread: the API would silently become stale.
                log.exception("following failed")
                self._wait(error)

    def _follow(self) -> None:
        self._lag, self._folded = None, {}
        with (
            closing(self._database.open_writer()) as connection,
            closing(self._session(connection)) as session,
        ):
            self._catch_up(session, connection)
            look = due = time.monotonic()
            while not self._thread.stopping.is_set():
                self._require_file()
                if (now := time.monotonic()) >= look:
                    self._lag = self._last = session.lag()
                    look = now + _LOOK_SECONDS
                self._publish(session.folded)
                if now >= due and not self._expire(connection):
                    self._housekeep(connection, session.freshness.at)
                    due = now + _HOUSEKEEPING_SECONDS
                session.step()

    def _session(self, connection: sqlite3.Connection) -> FoldSession:
        return FoldSession(self._settings, connection, self._announce, self._outage, self._hurry)

    def _catch_up(self, session: FoldSession, connection: sqlite3.Connection) -> None:
        began = time.monotonic()
        if session.begins_anew:
            self._database.drop_indexes(connection)
        while not session.caught_up():
            if self._thread.stopping.is_set():
                return
            self._require_file()
            session.step()
        self._database.create_indexes(connection)
        self._said = None
        log.info("read model has caught up", seconds=round(time.monotonic() - began, 1))

    def _publish(self, folded: Mapping[Place, int]) -> None:
        moved = [place for place, at in folded.items() if at != self._folded.get(place)]
        if moved:
            self._folded = dict(folded)
            # A file that was folded before gives no rows: say how far it is, too.
            ends: list[RowKey] = [(FOLDED, (*place, folded[place])) for place in moved]
            self._announce([*ends, *((POSITIONS, place) for place in moved)])

    def _require_file(self) -> None:
        if not self._database.in_place():
            raise Untrusted("its file was deleted or replaced")
        if self._database.damaged:
            raise Untrusted("damaged: a query found a page broken")

    def _expire(self, connection: sqlite3.Connection) -> bool:
        """Delete some rows that are too old; return whether there may be more of them."""
        now, most = wall_ms(), 0
        with transaction(connection):
            for expire, age in self._expiring:
                gone = connection.execute(expire, (now - age, _EXPIRED_AT_ONCE))
                most = max(most, gone.rowcount)
        return most == _EXPIRED_AT_ONCE

    def _housekeep(self, connection: sqlite3.Connection, fresh_at: int) -> None:
        with transaction(connection):
            positions.store_freshness(connection, fresh_at)
        # Empty the journal, in which deleted rows are readable until then.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _rebuild(self, reason: str) -> None:
        """Rebuild the file; if that fails, as on a full disk, the next opening rebuilds it."""
        self._lag, self._folded = None, {}
        try:
            self._database.rebuild(reason).close()
        except (sqlite3.Error, OSError) as error:
            self._wait(error)

    def _wait(self, error: Exception) -> None:
        if str(error) != self._said:
            log.warning("read model does not follow: trying again", error=str(error))
            self._said = str(error)
        self._thread.stopping.wait(_RETRY_SECONDS)


def seconds_behind(lag: Lag, now: int) -> float:
    """Return the lag at `now` (milliseconds): if the last answer is old, at least its age."""
    silent = (now - lag.heard_at) / 1000
    return max(lag.seconds, silent) if silent > _SILENCE_SECONDS else lag.seconds
