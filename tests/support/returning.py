"""Dead letters given back to their stages in memory, as an operator's replay gives them back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams import dead_letter
from streams.runtime.driver import TopologyTestDriver
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter
from streams.topology.model import Topology


def letters(driver: TopologyTestDriver) -> dict[str, DeadLetter]:
    """The dead letters by id, each as it was written last."""
    found = map(DEAD_LETTER.decode, (record.value for record in driver.output("dlq")))
    return {letter.id: letter for letter in found}


def give_back(
    driver: TopologyTestDriver, topology: Topology, letter: DeadLetter | str, **fields: Any
) -> None:
    """Replay a letter, or the newest of an id, as it is or with other fields."""
    found = letters(driver)[letter] if isinstance(letter, str) else letter
    marked = replace(found, replayed_at=driver.now, replay_outcome=None, **fields)
    topic = topology.letter_input(marked.stage)
    assert topic is not None
    key, value, headers = dead_letter.returning(marked)
    with driver.together():
        driver.pipe("dlq", *dead_letter.encoded(marked))
        driver.pipe(topic, key, value, headers=headers)


def outcome(driver: TopologyTestDriver, id_: str) -> str | None:
    return letters(driver)[id_].replay_outcome
