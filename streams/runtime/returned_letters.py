"""Dead letters that come back to their stage, and what the stage answers in them.

An operator's replay writes the whole letter to the input that the letter's stage alone reads
(`Topology.letter_input`). The runtime hands the processor the letter's record as it was, and writes
the letter to `dlq` again, in the same transaction, with what became of it. So no other reader of
the record's own topic sees it twice.
"""

from __future__ import annotations

from dataclasses import replace

from streams import dead_letter
from streams.errors import PoisonRecord
from streams.runtime.dead_keys import NO_OFFSET
from streams.runtime.processor import Record
from streams.runtime.stage import Stage
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter
from streams.serde.sizes import MAX_LETTER_BYTES


def returned(record: Record, stage: Stage, partition: int) -> DeadLetter | None:
    """The letter that a record brings back to its stage; None for any other record.

    One that is too large to be answered is no such letter: no operator sends it, and the stage
    could not pass it by.
    """
    if record.topic != stage.letters:
        return None
    if not record.headers or record.headers[-1][0] != dead_letter.LETTER_HEADER:
        return None
    key, value = record.key or b"", record.value or b""
    if len(key) + len(value) > MAX_LETTER_BYTES:
        return None
    try:
        letter = DEAD_LETTER.decode(value)
    except PoisonRecord:
        return None
    own = letter.stage == stage.name and letter.topic in stage.inputs
    own = own and letter.partition == partition and letter.id.encode() == key
    return letter if own else None


def as_read(letter: DeadLetter, carrier: Record) -> Record:
    """The letter's record as the stage first read it.

    Its time is believed only if it is before that of the carrier, which the broker's clock gave:
    whoever may write the input could forge it.
    """
    offset = NO_OFFSET if letter.offset is None else letter.offset
    headers = {n: v for n, v in letter.headers.items() if n != dead_letter.REPLAY_HEADER}
    at = letter.timestamp or 0
    return Record(
        letter.topic or "",
        carrier.partition,
        offset,
        at if 0 < at < carrier.timestamp else carrier.timestamp,
        letter.key,
        letter.value,
        list(headers.items()),
    )


def taken(letter: DeadLetter) -> DeadLetter:
    return replace(letter, replay_outcome="taken")


def failed(letter: DeadLetter, reason: str, detail: str) -> DeadLetter:
    """The letter of a record that is dead again, under the new reason.

    It waits for a person again, also if one discarded it, or made it manual work, before it was
    sent in.
    """
    detail = dead_letter.cut_text(detail)
    return replace(
        letter,
        replay_outcome="failed",
        reason=reason,
        detail=detail,
        discarded_at=None,
        discarded_by=None,
        discard_note=None,
        manual_at=None,
        manual_by=None,
        manual_note=None,
        assignee=None,
        done_at=None,
        done_by=None,
        done_note=None,
    )


def superseded(letter: DeadLetter) -> DeadLetter:
    """The letter of a record that would overwrite what the stage may have read since."""
    why = (
        f"not applied, because {letter.stage} may have read a newer record of this key of "
        f"{letter.topic}: if a setting is missing, write it again with its own call"
    )
    detail = dead_letter.cut_text(f"{why} ({letter.detail})")
    return replace(letter, replay_outcome="superseded", detail=detail)
