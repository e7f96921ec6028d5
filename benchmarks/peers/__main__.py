"""What a team would pick instead, on the same work and under the same kills.

    python -m peers [--rounds 3] [--only PEER ...] [--works WORK ...] [--scale 1.0]
        [--keep NAME] [--draw] [--sweep PEER] [--json]

Each round runs every peer, one after the other, with new servers and data: webhooks come over HTTP
to a front that verifies their signature and drops redeliveries, handlers write lines to a file, and
a checker that reads this file alone tells what was lost, doubled or run again. `kills` then ends
each kind of process with SIGKILL under a steady load. A figure is the median of its rounds, counts
are the sum. A work in which the checker found a fault has no figure. `--keep` publishes the rounds
under a name, in the place of those that had it before, and draws the tables of docs/compared.md and
of the README from all rounds that are published; `--draw` only draws them. `--sweep` tries a peer's
settings one by one; it keeps its rounds apart, where no table takes them from.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from contenders.environments import Unavailable
from harness import Result, arguments, report, variants
from jobs_run import Stalled
from outside import HERE
from webhook_requests import TENANTS, tenants_named

from peers import works
from peers.contract import Peer, Place
from peers.every import EVERY
from peers.kills import EFFECT_SECONDS, RATE, SECONDS, kills
from peers.rows import read, run_of, standings
from peers.running import running
from peers.storm import storm
from peers.tables import draw, show
from peers.verdict import Journal
from peers.waits import many_waits, waits
from streams.broker.ports import pick_free


@dataclass(frozen=True)
class Work:
    """What is measured.

    `size` is in jobs, or seconds with `timed`. `titles` are how its figures begin. `apart` are
    works on processes of their own. `tenants` is how many there are.
    """

    measure: works.Measure
    size: int
    titles: Sequence[str]
    timed: bool = False
    apart: bool = False
    tenants: int = len(TENANTS)


WORKS: Mapping[str, Work] = {
    "idle": Work(works.idle, 10, ("idle",), timed=True),
    "plain": Work(works.plain, 5_000, ("no-op", "resident")),
    "tenants": Work(
        works.many_tenants, 5_000, ("20 tenants", "2,000 tenants"), apart=True, tenants=2_000
    ),
    "effect": Work(works.one_effect, 3_000, ("one effect",)),
    "rates": Work(works.at_rates, 10, ("50/s", "200/s", "400/s"), timed=True),
    "fan": Work(works.fan_out, 1_000, ("fan-out",)),
    "storm": Work(storm, 10_000, ("storm",)),
    "waits": Work(waits, 2_000, ("waits",), apart=True),
    "many waits": Work(many_waits, 20_000, ("20,000 waits",), apart=True),
    "most waits": Work(many_waits, 100_000, ("100,000 waits",), apart=True),
    "kills": Work(kills, int(RATE * SECONDS), ("kills",), timed=True, apart=True),
}
WARM = 500
PAGES = (HERE.parent / "docs" / "compared.md", HERE.parent / "README.md")


def main() -> None:
    chosen = parse()
    if chosen.draw:
        draw_all()
    else:
        measure(chosen)


def measure(chosen: Namespace) -> None:
    """All rounds; then print what came of them."""
    mine = [EVERY[name] for name in EVERY if name in chosen.only]
    peers = swept(chosen) if chosen.sweep else mine
    command = shlex.join(["python", "-m", "peers", *sys.argv[1:]])
    rounds: list[list[Result]] = []
    for _ in range(chosen.rounds):
        rounds.append(list(in_turn(peers, chosen)))
        run = run_of(rounds, peers, command)
        if chosen.keep:
            run.keep(f"sweeps/{chosen.keep}" if chosen.sweep else chosen.keep)
            draw_all()
    found = standings([run])
    if chosen.json:
        report("peers", found.results, as_json=True)
    else:
        show(found)


def draw_all() -> None:
    """Draw the tables of the pages from the runs that are kept."""
    for page in PAGES:
        draw(page, standings(read()))


def parse() -> Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=EVERY, default=list(EVERY), metavar="PEER")
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--scale", type=float, default=1.0, help="a part of each work's size")
    parser.add_argument("--keep", metavar="NAME", help="publish the figures, under this name")
    parser.add_argument("--draw", action="store_true", help="draw the tables of the pages anew")
    parser.add_argument("--sweep", choices=EVERY, metavar="PEER")
    return parser.parse_args()


def swept(chosen: Namespace) -> list[Peer]:
    """A row for each setting that is tried."""
    peer = EVERY[chosen.sweep]
    tried = variants(peer.settings, peer.swept)
    return [replace(peer, name=what, settings=settings) for what, settings in tried]


def in_turn(peers: list[Peer], chosen: Namespace) -> Iterator[Result]:
    """One round."""
    for peer in peers:
        names = [name for name in WORKS if name in chosen.works and not _lacks(peer, name)]
        together = [name for name in names if not WORKS[name].apart]
        for some in filter(None, (together, *([n] for n in names if WORKS[n].apart))):
            yield from measured(peer, some, chosen.scale)


def _lacks(peer: Peer, work: str) -> bool:
    return work in peer.lacks or work.partition(" ")[2] in peer.lacks


def measured(peer: Peer, names: list[str], scale: float) -> Iterator[Result]:
    """Some works of a peer that is started for them."""
    effect = EFFECT_SECONDS if "kills" in names else 0.0
    with tempfile.TemporaryDirectory(prefix="tidegate-peers-") as folder:
        journal = Journal(Path(folder) / "journal")
        try:
            tenants = tenants_named(WORKS[names[0]].tenants)
            place = _place(peer, Path(folder), journal, effect, tenants)
            with running(peer, place) as system:
                stage = works.Stage(peer, system, journal)
                list(works.one_effect(stage, int(WARM * min(1.0, scale))))
                for name in names:
                    yield from told(name, stage, scale)
        except (Unavailable, Stalled) as why:
            print(f"{peer.name} is left out: {why}", file=sys.stderr)


def told(name: str, stage: works.Stage, scale: float) -> Iterator[Result]:
    """Measure one work and print its figures; a work that stalls has only its fault."""
    work = WORKS[name]
    count = work.size if work.timed else int(work.size * scale)
    try:
        results = list(work.measure(stage, count))
    except Stalled as why:
        print(f"{stage.name}, {name}: stalled: {why}", file=sys.stderr)
        wrong = (f"{title}, {works.WRONG}" for title in work.titles)
        results = [Result(stage.name, each, count, "jobs") for each in wrong]
    for each in results:
        if ", of it " not in each.metric:
            print(f"{stage.name}: {each.metric}: {each.value:,} {each.unit}", file=sys.stderr)
    yield from results


def _place(
    peer: Peer, folder: Path, journal: Journal, effect: float, tenants: Sequence[str]
) -> Place:
    env = {
        "PYTHONPATH": str(HERE),
        "PEERS_JOURNAL": str(journal.path),
        "PEERS_EFFECT_SECONDS": str(effect),
    }
    return Place(folder, pick_free(), env, peer.settings, tenants)


if __name__ == "__main__":
    main()
