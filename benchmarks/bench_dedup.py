"""Events a second of the dedup stage beside Quix Streams, Faust and Kafka Streams.

    python benchmarks/bench_dedup.py [--events 400000] [--duplicates 0.1] [--json]
        [--contender NAME ...] [--rounds N] [--sweep NAME]
        [--keys N ...] [--processes N] [--hop] [--recover]

One broker, one topic, filled once: real envelopes of 200 tenants with the headers that the ingress
sends, their timestamps spread over nine days. Each contender is one process and reads all of it;
Faust, being slow, a tenth as many on a topic of its own. Speed is taken from outside, for all in
the same way: the offsets that the contender's group has committed. A contender's output, read with
read_committed, must hold exactly the expected events, each once: else its row is void, and the exit
code is 1.

With `--rounds` everybody runs so often, in turns and each time on a new broker, since a machine is
seldom as fast as a minute before: a row is its round of median speed. `--sweep` tries a contender's
settings one by one. `--keys`, `--processes`, `--hop` (beside `bare`) and `--recover` measure our
stage alone; the comparison is then made only for each `--contender` named.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from contenders.environments import Unavailable
from dedup_alone import Measured, as_processes, idle_hop, killed, with_keys
from dedup_contenders import ALL, BARE, TIDEGATE, Contender, Input, Row, Settings, run
from dedup_standings import median, results, show
from dedup_topic import FEW, INPUT, create, create_stage_topics, fill
from harness import arguments, broker_and_folder, report

Entry = tuple[str, Contender, Settings]


def main() -> None:
    chosen = parse()
    alone = list(measured_alone(chosen))
    rows = contest(chosen, entries(chosen, alone=bool(alone)))
    figures = [result for measured in alone for result in measured.results]
    if chosen.json:
        report("dedup", [*results(rows), *figures], as_json=True)
    else:
        show("dedup", rows)
        if figures:
            report("dedup alone", figures, as_json=False)
    if not rows and not alone:
        sys.exit("nothing was measured")
    void = any(row.void for row in rows) or any(measured.faults.total for measured in alone)
    sys.exit(1 if void else 0)


def parse() -> Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--duplicates", type=float, default=0.1, help="share, below 1")
    parser.add_argument("--contender", action="append", choices=ALL)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sweep", choices=[c.name for c in ALL.values() if c.swept])
    parser.add_argument("--keys", type=int, action="append", default=[])
    parser.add_argument("--processes", type=int)
    parser.add_argument("--hop", action="store_true")
    parser.add_argument("--recover", action="store_true")
    return parser.parse_args()


def measured_alone(chosen: Namespace) -> Iterator[Measured]:
    """What was asked of our stage by itself."""
    load = chosen.events, chosen.duplicates
    for keys in chosen.keys:
        yield with_keys(keys, *load)
    if chosen.processes:
        yield as_processes(chosen.processes, *load)
    if chosen.hop:
        yield idle_hop(BARE)
        yield idle_hop(TIDEGATE)
    if chosen.recover:
        yield killed(*load)


def entries(chosen: Namespace, *, alone: bool) -> list[Entry]:
    """The runs to make side by side: a name for each row, who, and with which settings."""
    if chosen.sweep:
        contender = ALL[chosen.sweep]
        return [(what, contender, settings) for what, settings in contender.variants()]
    names = chosen.contender or ([] if alone else ALL)
    return [(name, ALL[name], ALL[name].settings) for name in names]


def contest(chosen: Namespace, asked: Sequence[Entry]) -> list[Row]:
    """A row for each entry that this machine can run: its median of all rounds."""
    if not asked:
        return []
    rounds = [list(in_turn(chosen, asked)) for _ in range(chosen.rounds)]
    return [median(rows) for rows in zip(*rounds, strict=True)]


def in_turn(chosen: Namespace, asked: Sequence[Entry]) -> Iterator[Row]:
    """One round: each entry once, all on one broker."""
    with broker_and_folder() as (bootstrap, folder):
        create_stage_topics(bootstrap)
        inputs: dict[float, Input] = {}
        for name, contender, settings in asked:
            share = contender.share
            if share not in inputs:
                inputs[share] = filled(bootstrap, share, chosen)
            try:
                row = run(name, contender, settings, bootstrap, inputs[share], folder)
            except Unavailable as why:
                print(f"{name} is skipped: {why}", file=sys.stderr)
                continue
            said = f"{row.speed.rate:,.0f} events/s, " if row.speed else ""
            print(f"{name}: {said}{row.verdict}", file=sys.stderr)
            yield row


def filled(bootstrap: str, share: float, chosen: Namespace) -> Input:
    """The topic for those who get this share of the events."""
    topic = INPUT if share == 1 else FEW
    if topic == FEW:
        create(bootstrap, FEW)
    events = int(chosen.events * share)
    return Input(topic, events, fill(bootstrap, topic, events, chosen.duplicates))


if __name__ == "__main__":
    main()
