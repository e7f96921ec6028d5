"""SIGTERM: no more leases, runs end, and what does not end is given back."""

from __future__ import annotations

import pytest
from support.link_suite.leases import lease
from support.link_suite.play import SLOTS, Play
from support.link_suite.said import come

from streams.serde.link.messages import Leased

pytestmark = pytest.mark.long


async def test_a_worker_that_is_told_to_end_takes_no_more_and_ends_its_runs(play: Play) -> None:
    session = await play.owner.connected()
    leased = await play.run("slow", {"seconds": 2})
    await play.listed(leased)
    play.terminate()
    beat = await come(
        lambda: session.beat if session.beat and session.beat.draining else None, "it drains"
    )
    assert beat.limit <= session.sent
    assert (await play.ended(leased)).status == "succeeded"
    assert await play.exit_code() == 0


async def test_a_lease_that_crosses_the_drain_is_declined(play: Play) -> None:
    session = await play.owner.connected()
    await play.listed(await play.run("slow", {"seconds": 2}))
    play.terminate()
    beat = await come(
        lambda: session.beat if session.beat and session.beat.draining else None, "it drains"
    )
    crossing = lease("echo", 1)
    await play.owner.send(Leased(0, beat.number, crossing))
    assert (await play.said.next("declined", crossing.job_id)).body.detail
    assert await play.exit_code() == 0


async def test_an_idle_worker_ends_at_once(play: Play) -> None:
    await play.ended(await play.run("echo", 1))
    play.terminate()
    assert await play.exit_code(10) == 0


async def test_runs_that_do_not_end_are_given_back(play: Play) -> None:
    runs = [await play.run("slow", {"seconds": 300}, timeout=600) for _ in range(SLOTS - 1)]
    for each in runs:
        await play.listed(each)
    play.terminate()
    await come(lambda: len(play.said.all("ended")) == len(runs), "they are given back", 60)
    assert {told.body.status for told in play.said.all("ended")} == {"released"}
    assert await play.exit_code() == 0


async def test_a_worker_that_ends_waits_for_the_acknowledgement_of_its_last_word(
    play: Play,
) -> None:
    leased = await play.run("slow", {"seconds": 2})
    await play.listed(leased)
    play.owner.holds = True
    play.terminate()
    await play.said.next("ended", leased.job_id)
    assert play.process.returncode is None
    play.owner.holds = False
    await play.owner.acknowledge()
    assert await play.exit_code() == 0
