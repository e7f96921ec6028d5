"""Which producer an operator's changes are written with, and where their chains go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streams.api.audited_writes import AuditedWrites
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.audit.chain import Head, chain_of, head_of, verify
from streams.audit.entries import of_call
from streams.kafka.fenced_write import FencedWrite, OutgoingRecord, Unsettled
from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import DONE, AuditEntry, Call

ENTRY = of_call(Call("token:ann", "operator", "req-1"), "tenant.set", "acme", DONE, 5)
WRITER = "operator/one"


class Write:
    """A producer's transactions; what is `lost` is not committed, and nobody is told.

    What is `unanswered` is committed, and something else happens before nobody is told.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.is_broken = self.lost = False
        self.unanswered: Callable[[], Awaitable[object]] | None = None

    async def commit(self, *records: OutgoingRecord) -> list[int]:
        if self.lost:
            raise Unsettled("no answer")
        self._log.entries += [(r.partition, AUDIT_ENTRY.decode(r.value)) for r in records]
        if self.unanswered is not None:
            await self.unanswered()
            raise Unsettled("no answer")
        return list(range(len(records)))


class Log:
    """The topic, whoever opens producers for it, and the read model, which may be late."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, AuditEntry]] = []
        self.opened: list[Write] = []
        self.asked: list[list[int]] = []
        self.late = False

    async def open(self) -> FencedWrite:
        self.opened.append(Write(self))
        return cast(FencedWrite, self.opened[-1])

    async def heads(self, writer: str, partitions: Sequence[int]) -> dict[int, Head]:
        self.asked.append(list(partitions))
        if self.late:
            raise Refusal(503, "not-ready", "the read model is late")
        heads = {p: Head(chain_of(writer, p)) for p in partitions}
        return heads | {p: head_of(entry) for p, entry in self.entries if p in heads}

    async def shows(self, head: Head) -> bool:
        return head in [head_of(entry) for _, entry in self.entries]

    def chains(self) -> dict[str, int]:
        """How many entries each chain has; all must be whole."""
        found = [entry for _, entry in self.entries]
        assert list(verify(found)) == []
        return {entry.chain: entry.seq for entry in found}


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def writes(log: Log) -> AuditedWrites:
    return AuditedWrites("one", log, log.heads, log.shows)


async def test_a_producer_is_kept_until_one_of_its_connections_breaks(
    log: Log, writes: AuditedWrites
) -> None:
    for _ in range(2):
        await writes.write(ENTRY, 3)
    assert len(log.opened) == 1
    log.opened[0].is_broken = True
    for _ in range(2):
        await writes.write(ENTRY, 3)
    assert len(log.opened) == 2
    assert log.chains() == {chain_of(WRITER, 3): 4}


async def test_only_heads_of_partitions_that_are_written_are_looked_for_once_each(
    log: Log, writes: AuditedWrites
) -> None:
    await writes.write(ENTRY, 3)
    await asyncio.gather(*(writes.write(ENTRY, each) for each in (3, 5, 5)))
    assert log.asked == [[3], [5]]
    assert log.chains() == {chain_of(WRITER, 3): 2, chain_of(WRITER, 5): 2}


async def test_a_read_model_that_is_late_delays_its_calls_alone(
    log: Log, writes: AuditedWrites
) -> None:
    await writes.write(ENTRY, 3)
    log.late = True
    with pytest.raises(Refusal, match="late"):
        await writes.write(ENTRY, 5)
    await writes.write(ENTRY, 3)
    log.late = False
    await writes.write(ENTRY, 5)
    assert log.chains() == {chain_of(WRITER, 3): 2, chain_of(WRITER, 5): 1}


async def test_what_was_not_committed_is_written_with_the_next_producer(
    log: Log, writes: AuditedWrites
) -> None:
    await writes.write(ENTRY, 3)
    log.opened[0].lost = True
    assert await writes.write(ENTRY, 5) == []
    assert len(log.opened) == 2
    assert log.chains() == {chain_of(WRITER, 3): 1, chain_of(WRITER, 5): 1}


@pytest.mark.parametrize("rebuilt", [False, True])
async def test_a_head_that_is_read_while_the_read_model_is_rebuilt_counts_for_nothing(
    rebuilt: bool,
) -> None:
    """The new file shows no entry, so the chain would begin again at 1."""
    state = SimpleNamespace(is_ready=True, asked=list[tuple[str, int]]())
    head = Head(chain_of(WRITER, 3))

    async def read_barrier(*places: tuple[str, int]) -> None:
        state.asked += places

    def read(_: Any) -> dict[int, Head]:
        state.is_ready = not rebuilt
        return {3: head}

    state.read_barrier, state.database = read_barrier, SimpleNamespace(read=read)
    state.ready = lambda: state.is_ready
    found = AppState.heads(cast(AppState, state), WRITER, [3])
    if rebuilt:
        with pytest.raises(Refusal, match="rebuilt"):
            await found
    else:
        assert await found == {3: head}
    assert state.asked == [("audit", 3)]


async def test_what_was_committed_is_not_written_again_though_the_chain_has_gone_on(
    log: Log, writes: AuditedWrites
) -> None:
    """Another operator of the same instance may have written before this one looks."""
    await writes.write(ENTRY, 3)
    other = AuditedWrites("one", log, log.heads, log.shows)
    log.opened[0].unanswered = lambda: other.write(ENTRY, 3)
    assert await writes.write(ENTRY, 3) is None
    assert log.chains() == {chain_of(WRITER, 3): 3}
