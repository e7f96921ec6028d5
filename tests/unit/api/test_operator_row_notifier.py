"""Waiting for the read model: woken by the row's change, by no other, and never for ever."""

from __future__ import annotations

import asyncio

from streams.api.read_model.row_notifier import RowNotifier

ROW = ("jobs", ("job_a",))


async def test_a_row_that_is_there_is_answered_at_once() -> None:
    notifier = RowNotifier(asyncio.get_running_loop())

    async def look() -> str | None:
        return "there"

    assert await notifier.until(ROW, look, 0) == "there"


async def test_a_change_from_another_thread_wakes_who_waits_for_that_row() -> None:
    notifier = RowNotifier(asyncio.get_running_loop())
    looked = asyncio.Queue[None]()
    rows: list[str] = []

    async def look() -> str | None:
        looked.put_nowait(None)
        return rows[0] if rows else None

    waiting = [asyncio.create_task(notifier.until(ROW, look, 30)) for _ in range(2)]
    for _ in waiting:
        await looked.get()
    rows.append("arrived")
    await asyncio.to_thread(notifier.announce, [("jobs", ("job_b",)), ("tenants", ("job_a",))])
    await asyncio.to_thread(lambda: None)
    assert looked.empty()
    await asyncio.to_thread(notifier.announce, [ROW])
    assert await asyncio.gather(*waiting) == ["arrived", "arrived"]


async def test_a_change_while_looking_is_not_missed() -> None:
    notifier = RowNotifier(asyncio.get_running_loop())
    rows: list[str] = []

    async def look() -> str | None:
        found = rows[0] if rows else None
        if not rows:
            rows.append("late")
            await asyncio.to_thread(notifier.announce, [ROW])
            await asyncio.to_thread(lambda: None)
        return found

    assert await notifier.until(ROW, look, 30) == "late"


async def test_waiting_ends_with_its_time_and_leaves_nothing_behind() -> None:
    notifier = RowNotifier(asyncio.get_running_loop())

    async def look() -> str | None:
        return None

    assert await notifier.until(ROW, look, 0.01) is None
    assert not notifier._waiting
