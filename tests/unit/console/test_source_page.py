"""The page of a source: a test event from the button to what became of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.console_desk import Console, console
from support.webhooks import MemoryLog, source, tenant

from ingress.receive.admission import DirectAdmission
from streams.serde.codec import TENANT

PAGE = "/console/tenants/acme/sources/shop"
TEST = "POST /v1/tenants/acme/sources/shop/test"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        desk, log = made.api.desk, MemoryLog()
        desk.admission = DirectAdmission(log, desk.vault, log.book, desk.topology)  # type: ignore[attr-defined]
        desk.project([("tenants", *tenant("acme")), ("tenants", *source("acme", "shop", "stripe"))])
        yield made


async def test_a_test_event_is_sent_by_a_button_and_leads_to_its_waterfall(desk: Console) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page(PAGE)
    assert '<option value="invoice.paid"' in html
    status, shown = await browser.act(html, TEST, sample="invoice.paid")
    assert status == 200
    assert re.search(r'href="/console/events/evt_[0-9a-f-]{36}"', shown)
    assert "no route matches its type" in shown
    assert f'href="{PAGE}">Back to the source' in shown


async def test_a_button_pressed_twice_sends_one_event(desk: Console) -> None:
    browser = await desk.signed_in("operator")
    html = await browser.page(PAGE)
    found = [(await browser.act(html, TEST))[1] for _ in range(2)]
    first, again = (re.findall(r"/console/events/(evt_[0-9a-f-]+)", each)[0] for each in found)
    assert first == again
    assert "is one event" in found[1]


async def test_a_body_that_does_not_fit_leads_to_its_entry_in_quarantine(desk: Console) -> None:
    fits_nothing = source("acme", "shop", "stripe", mapping={"event_type": "no.such"})
    desk.api.desk.project([("tenants", *fits_nothing)])
    browser = await desk.signed_in("operator")
    _, shown = await browser.act(await browser.page(PAGE), TEST)
    assert "does not fit the source: mapping.event_type" in shown
    assert "/console/quarantine/evt_" in shown
    assert "/console/events/evt_" not in shown


async def test_who_only_reads_has_no_such_button_and_a_disabled_source_has_none(
    desk: Console,
) -> None:
    assert TEST not in await (await desk.signed_in("viewer")).page(PAGE)
    key, value = source("acme", "shop", "stripe", ())
    gone = TENANT.encode(replace(TENANT.decode(value), disabled=True))
    desk.api.desk.project([("tenants", key, gone)])
    assert TEST not in await (await desk.signed_in("operator")).page(PAGE)
