"""No client of Kafka is there for rates while no tenant has one."""

from __future__ import annotations

import pytest
from conditions import eventually

from ingress import rate_gossip
from ingress.rate_gossip import RateGossip
from ingress.rates import Rates
from streams.settings import Settings
from streams.tenants import Rate


class Asked(dict[str, Rate]):
    """Rates that count how often they were looked at."""

    times = 0

    def __bool__(self) -> bool:
        self.times += 1
        return len(self) > 0


def test_without_a_rate_nothing_is_sent_or_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(rate_gossip, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(rate_gossip, "Consumer", made.append)
    monkeypatch.setattr(rate_gossip, "Producer", made.append)
    limits = Asked()
    gossip = RateGossip(Settings(), Rates(limits))
    gossip.start()
    eventually(lambda: limits.times > 3, what="it looked for rates")
    gossip.stop()
    assert made == []
