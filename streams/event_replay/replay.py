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
    STOPPED,
    ReplayAsked,
    ReplayBody,
    ReplayPaused,
    ReplayProgress,
    ReplayRecord,
    ReplayStatus,
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
class Replay:
    """A replay, its state included; `asked_at` in milliseconds. A stop is final.

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

    def folded(self, record: ReplayRecord) -> Replay:
        """This, with one more record of the topic."""
        match record.body:
            case ReplayAsked() as asked:
                clash = self.asked is not None and self.asked.digest != asked.digest
                return replace(
                    self,
                    asked=asked,
                    asked_at=record.at,
                    asked_by=record.by,
                    clash=self.clash or clash,
                )
            case ReplayPaused(paused):
                return replace(self, paused=paused)
            case ReplayStopped() as stopped:
                return replace(self, stopped=stopped)
            case ReplayProgress() as progress:
                return replace(self, progress=progress)

    @property
    def ended(self) -> bool:
        return self.progress is not None and self.progress.status in ENDED

    @property
    def ordered(self) -> ReplayStatus:
        """The state that the records of the API order; an end is final whatever they say."""
        if self.stopped is not None or self.clash:
            return STOPPED
        return PAUSED if self.paused else RUNNING

    @property
    def unobeyed(self) -> bool:
        """Whether the carrier has something left to do."""
        fixed = self.progress is not None and bool(self.progress.spans)
        at_rest = fixed and self.status == PAUSED
        return self.asked is not None and not (self.ended or at_rest)

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
