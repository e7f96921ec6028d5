"""How often a stage is punctuated: at its own pace after work, less often while it rests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.counting import counting_stage, counting_topology

from streams.runtime.driver import TopologyTestDriver
from streams.runtime.processor import REST_SECONDS, Context, Processor, Record

PACE = 0.05


class Resting(Processor):
    """It notes when it is punctuated; a key `busy` lets it rest no more, `wrote` lets it write."""

    def __init__(self, partition: int) -> None:
        self.times: list[int] = []
        self.busy = self.writes = False

    def process(self, record: Record, ctx: Context) -> None:
        self.busy = record.key == b"busy"
        self.writes = record.key == b"wrote"

    def punctuate(self, now: int, ctx: Context) -> None:
        self.times.append(now)
        if self.writes:
            ctx.store("counts").put(b"k", b"%d" % now)

    def rests(self, ctx: Context) -> bool:
        return not self.busy


@pytest.fixture
def processor() -> Resting:
    return Resting(0)


@pytest.fixture
def driver(processor: Resting) -> TopologyTestDriver:
    stage = replace(counting_stage(), processor=lambda _: processor, punctuate_seconds=PACE)
    return TopologyTestDriver([stage], counting_topology(), partitions=1)


def punctuations(driver: TopologyTestDriver, processor: Resting, seconds: float) -> int:
    """How many there are in a time; a first one comes at the stage's own pace."""
    processor.times.clear()
    driver.advance(seconds)
    return len(processor.times)


def test_a_stage_that_rests_is_punctuated_seldom(
    driver: TopologyTestDriver, processor: Resting
) -> None:
    assert punctuations(driver, processor, 10) == pytest.approx(10 / REST_SECONDS, abs=2)


@pytest.mark.parametrize("why", [b"busy", b"wrote"])
def test_work_in_hand_and_changes_keep_its_own_pace(
    driver: TopologyTestDriver, processor: Resting, why: bytes
) -> None:
    driver.pipe("in", why, b"")
    assert punctuations(driver, processor, 10) == pytest.approx(10 / PACE, abs=2)


def test_a_record_ends_the_rest(driver: TopologyTestDriver, processor: Resting) -> None:
    driver.advance(10)
    driver.pipe("in", b"other", b"")
    at = driver.now
    driver.advance(PACE)
    assert processor.times[-1] - at <= PACE * 1000
