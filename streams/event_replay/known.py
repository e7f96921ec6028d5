"""One replay as the records of the topic `replays` describe it.

Each kind of record has one author and a key of its own, so that none replaces another: the API
writes what is asked, pauses and the stop, and the carrier writes the progress.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streams.serde.replay_records import (
    ENDED,
    PAUSED,
    RUNNING,
    ReplayAsked,
    ReplayBody,
    ReplayPaused,
    ReplayProgress,
    ReplayRecord,
    ReplayStopped,
)

TOPIC = "replays"
KINDS: dict[type[ReplayBody], str] = {
    ReplayAsked: "asked",
    ReplayPaused: "paused",
    ReplayStopped: "stopped",
    ReplayProgress: "progress",
}


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known of a replay; `asked_at` in milliseconds. A stop is final.

    `clash` tells that two processes took one key at once, for two different replays.
    """

    replay_id: str
    asked: ReplayAsked | None = None
    asked_at: int = 0
    asked_by: str = ""
    paused: bool = False
    stopped: ReplayStopped | None = None
    progress: ReplayProgress | None = None
    clash: bool = False

    def folded(self, record: ReplayRecord) -> Known:
        """This, with one more record of the topic."""
        match record.body:
            case ReplayAsked() as body:
                clash = self.asked is not None and self.asked.digest != body.digest
                return replace(
                    self,
                    asked=body,
                    asked_at=record.at,
                    asked_by=record.by,
                    clash=self.clash or clash,
                )
            case ReplayPaused(paused):
                return replace(self, paused=paused)
            case ReplayStopped() as body:
                return replace(self, stopped=body)
            case ReplayProgress() as body:
                return replace(self, progress=body)
        return self

    @property
    def ended(self) -> bool:
        return self.progress is not None and self.progress.status in ENDED

    @property
    def status(self) -> str:
        """The state in one word.

        It is `queued` until the carrier takes it, and `pausing` or `stopping` until it obeys.
        """
        if self.ended and self.progress is not None:
            return self.progress.status
        if self.stopped is not None:
            return "stopping"
        at_rest = self.progress is None or self.progress.status == PAUSED
        if self.paused:
            return PAUSED if at_rest else "pausing"
        return "queued" if at_rest else RUNNING
