"""The dedup stage under load behind a network that loses, delays and holds back single messages.

Only the stage goes through the proxy; the flood and the verdict do not. Every fault must strike
while the stage has records in flight, or its test fails.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError
from support.conditions import eventually
from support.dedup_under_load import DedupUnderLoad
from support.kafka_proxy import Api, Fault, KafkaProxy
from support.kafka_under_test import KafkaUnderTest

from streams.settings import load_settings

pytestmark = [pytest.mark.broker, pytest.mark.fault]

PAST_TIMEOUTS = load_settings().session_seconds + 2
_ERROR = struct.Struct(">4xh")  # behind the throttle time, in an answer to EndTxn
STORM = (
    Api.PRODUCE,
    Api.FETCH,
    Api.LIST_OFFSETS,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.ADD_OFFSETS_TO_TXN,
    Api.END_TXN,
    Api.TXN_OFFSET_COMMIT,
    Api.HEARTBEAT,
)


@pytest.fixture
def proxy(kafka: KafkaUnderTest, dedup: DedupUnderLoad) -> Iterator[KafkaProxy]:
    """Between the broker and the stage, which works."""
    with ExitStack() as leave, KafkaProxy(kafka.bootstrap, lambda: stage.points.now) as found:
        stage = dedup.start(TIDEGATE_BOOTSTRAP=found.bootstrap)
        leave.callback(stage.kill)
        dedup.await_recovery("start")
        yield found


def await_struck(fault: Fault, times: int = 1, idle: int = 0) -> None:
    """It struck so often, all but `idle` times with records in flight, and is over."""
    eventually(lambda: fault.ended == times, what=f"{fault.api.name} struck {times} times")
    assert sum(not place.in_flight for place in fault.landed) <= idle, fault.landed
    print(f"{fault.kind} {fault.api.name}: struck at {fault.landed}")


LOST = [
    (Api.PRODUCE, 1),
    (Api.PRODUCE, 5),
    (Api.END_TXN, 1),
    (Api.END_TXN, 3),
    (Api.TXN_OFFSET_COMMIT, 1),
    (Api.TXN_OFFSET_COMMIT, 3),
    (Api.ADD_OFFSETS_TO_TXN, 1),
    (Api.ADD_PARTITIONS_TO_TXN, 1),
]
QUICK = {(Api.PRODUCE, 5), (Api.END_TXN, 3)}


@pytest.mark.parametrize(
    ("api", "times"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.chaos) for case in LOST],
)
def test_lost_answers(dedup: DedupUnderLoad, proxy: KafkaProxy, api: Api, times: int) -> None:
    """The broker did what it was asked; the stage does not know, and asks again."""
    await_struck(proxy.drop_answers(api, times), times)
    dedup.await_recovery(f"{times} lost {api.name}")
    assert dedup.verdict() == []


@pytest.mark.chaos
@pytest.mark.parametrize("api", [Api.PRODUCE, Api.END_TXN, Api.TXN_OFFSET_COMMIT], ids=str)
@pytest.mark.parametrize(
    "seconds",
    [3.0, PAST_TIMEOUTS],
)
def test_late_answers(dedup: DedupUnderLoad, proxy: KafkaProxy, api: Api, seconds: float) -> None:
    """Also those that come when the broker has given the transaction up, or has ended it."""
    await_struck(proxy.delay_answers(api, seconds))
    dedup.await_recovery(f"{api.name} {seconds:g} s late")
    assert dedup.verdict() == []


@pytest.mark.chaos
def test_a_slow_broker(dedup: DedupUnderLoad, proxy: KafkaProxy) -> None:
    """Every record is acknowledged late, a disk's worth, for many transactions.

    The source may have nothing new while one of so many answers is late.
    """
    await_struck(proxy.delay_answers(Api.PRODUCE, 0.5, 30), 30, idle=3)
    dedup.await_recovery("30 slow answers")
    assert dedup.verdict() == []


@pytest.mark.parametrize(
    ("step", "end"),
    [
        ("offsets_sent", signal.SIGKILL),
        ("produced", signal.SIGKILL),
        pytest.param("before_commit", signal.SIGKILL, marks=pytest.mark.chaos),
        pytest.param("offsets_sent", signal.SIGCONT, marks=pytest.mark.chaos),
        pytest.param("produced", signal.SIGCONT, marks=pytest.mark.chaos),
        pytest.param("before_commit", signal.SIGCONT, marks=pytest.mark.chaos),
    ],
)
def test_a_commit_that_arrives_within_a_later_transaction(
    dedup: DedupUnderLoad, proxy: KafkaProxy, step: str, end: signal.Signals
) -> None:
    """Its connection broke, it was sent again and done; then the first sending comes through.

    Would the broker take it, it would end a transaction of which only a part is there.
    """
    (stage,) = dedup.processes
    fault = proxy.hold_requests(Api.END_TXN)
    await_struck(fault)
    stage.fault(step, signal.SIGSTOP)
    (answer,) = proxy.release(fault)
    assert _ERROR.unpack_from(answer)[0] == KafkaError.INVALID_PRODUCER_EPOCH
    stage.signal(end)
    if end == signal.SIGKILL:
        stage.kill()
        dedup.start()
    dedup.await_recovery("a late commit")
    assert dedup.verdict() == []


@pytest.mark.chaos
@pytest.mark.parametrize("_round", range(3))
def test_one_fault_after_another(dedup: DedupUnderLoad, proxy: KafkaProxy, _round: int) -> None:
    """Any message lost, late or held back until some faults later, while the stage recovers."""
    held: list[Fault] = []
    for _ in range(25):
        api, kind = dedup.random.choice(STORM), dedup.random.choice(("drop", "delay", "hold"))
        if kind == "drop":
            fault = proxy.drop_answers(api, dedup.random.randint(1, 3))
        elif kind == "delay":
            fault = proxy.delay_answers(api, dedup.random.choice((0.1, 1.0, 6.0)))
        else:
            fault = proxy.hold_requests(api)
            held.append(fault)
        eventually(lambda: fault.ended, what=f"{kind} {api.name} struck")  # noqa: B023
        print(f"{kind} {api.name}: struck at {fault.landed}")
        if held and dedup.random.random() < 0.5:
            proxy.release(held.pop())
    dedup.await_recovery("all of them")
    assert dedup.verdict() == []
