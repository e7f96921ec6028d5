"""A worker's way to one owner of partitions: it dials again and again, as the product does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulation.wire import Wire
from streams.link.owner import Owner
from streams.worker.link.link import Link

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass
class Line:
    """`name` is the owner's address; no connection begins before `dials_at` (seconds)."""

    name: str
    dials_at: float = float("-inf")
    wire: Wire | None = None
    dialed_at: float = float("-inf")
    _pause: float = field(default=_FIRST_PAUSE, init=False)

    def keep(self, link: Link, owner: Owner | None, now: float) -> None:
        """Dial an owner if it is time and there is no connection; None cannot be reached."""
        if self.wire is not None and not self.wire.is_open:
            lasted = now - self.dialed_at > _LONGEST_PAUSE
            self._pause = _FIRST_PAUSE if lasted else self._pause
            self.dials_at = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self.wire = None
        if self.wire is None and owner is not None and now >= self.dials_at:
            self.dialed_at = now
            self.wire = Wire(link, owner, self.name)
            link.opened(self.wire)


@dataclass
class Network:
    """What is wrong with a worker's network, and until when, in seconds.

    `cut`: nothing gets through. `lag`: nothing gets out, and `mute`: nothing gets in. `trickle`:
    messages get through one by one. `away` is for how many seconds the worker reaches nobody after
    an acknowledgement was lost.
    """

    cut: float = 0.0
    lag: float = 0.0
    mute: float = 0.0
    trickle: float = 0.0
    loses_ack_of: str | None = None
    away: float = 0.0

    def heal(self, now: float) -> None:
        """Everything gets through from now on."""
        self.cut, self.lag = min(self.cut, now), min(self.lag, now)
        self.mute, self.trickle = min(self.mute, now), min(self.trickle, now)
        self.loses_ack_of = None

    @property
    def bad_until(self) -> float:
        """When the worker could last not speak or not be spoken to."""
        return max(self.cut, self.lag, self.mute)

    def most(self, now: float) -> int | None:
        """How many messages get through each way."""
        return 1 if now < self.trickle else None


@dataclass
class Lines:
    """All ways of one worker, by address."""

    network: Network = field(default_factory=Network)
    by_name: dict[str, Line] = field(default_factory=dict)

    @property
    def wires(self) -> list[Wire]:
        """The connections that are open."""
        wires = [line.wire for line in self.by_name.values()]
        return [wire for wire in wires if wire is not None and wire.is_open]

    @property
    def dialed_at(self) -> float:
        """When the newest connection began."""
        return max((line.dialed_at for line in self.by_name.values()), default=0.0)

    def move(self, name: str, to: str, dials_at: float) -> None:
        """The owner at an address has another one now; a new one at `name` is dialed later."""
        line = self.by_name.pop(name, None)
        if line is not None:
            line.name = to
            if line.wire is not None:
                line.wire.name = to
            self.by_name[to] = line
        self.by_name[name] = Line(name, dials_at)

    def keep(self, link: Link, owners: Mapping[str, Owner | None], now: float) -> None:
        """Dial each owner; one that is gone is not dialed any more."""
        for name in self.by_name.keys() - owners.keys():
            line = self.by_name.pop(name)
            if line.wire is not None:
                line.wire.close("its process is gone")
        for name, owner in owners.items():
            line = self.by_name.setdefault(name, Line(name))
            line.keep(link, owner if now >= max(self.network.cut, self.network.lag) else None, now)

    def carry_in(self, owners: Mapping[str, Owner | None], now: float) -> bool:
        """Bring the worker what owners have sent that do not stand still."""
        network, moved = self.network, False
        for wire in self.wires:
            if now >= max(network.cut, network.mute) and owners.get(wire.name) is not None:
                wire.loses_ack_of = network.loses_ack_of
                moved |= wire.carry_in(network.most(now))
                if network.loses_ack_of is not None and not wire.is_open:
                    network.loses_ack_of = None
                    network.cut = max(network.cut, now + network.away)
        return moved

    def carry_out(self, owners: Mapping[str, Owner | None], now: float) -> bool:
        """Bring owners what the worker has sent."""
        network, moved = self.network, False
        for wire in self.wires:
            if now >= max(network.cut, network.lag) and owners.get(wire.name) is not None:
                moved |= wire.carry_out(network.most(now))
        return moved
