"""What traces cost: jobs a second and processor time a job, with none, 1 % and all recorded.

    python benchmarks/bench_traces.py [--rounds 2] [--turns 10] [--jobs 1000] [--before TREE]
        [--quick] [--json]

Each round starts `tidegate dev` once for each row: traces off, 1 % of the events recorded, all of
them, and off again, whose ratio to the first shows how far two equal ones lie apart. `--before`
adds a row that runs the code of an older checkout, without traces. After a warm-up they take short
turns, each of no-op jobs and then of jobs of one effect, as fast as they are taken, while the
others are idle: a machine that gets slower for a minute does so for all. Spans go to a collector in
this program, on loopback, which keeps none; its own processor time is in none of the figures.

A figure is the median of all turns; a ratio is that of each turn to `off` in the same turn. At 1 %
processor time may be 1.03 times that of `off`. Every job must end once: else the row is void, and
the exit code is 1. So it is if a row records spans that should not, or none that should.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from harness import Result, arguments, report
from jobs_contenders import OURS
from jobs_run import Load, Stalled
from jobs_standings import FAULTS, NAMES, PROCESSOR, figures, medians, title
from jobs_tidegate import Tidegate, tidegate
from outside import APPLICATION_PATH

OFF, AGAIN, BEFORE = "off", "off again", "code of before"
SHARES = {OFF: None, "1 %": "0.01", "100 %": "1", AGAIN: None}
EXPORTED, LOST = "spans exported", "spans lost"
_COUNTED = {
    EXPORTED: "tidegate_traces_spans_exported_total",
    LOST: "tidegate_traces_spans_lost_total",
}
_EXPORT_SECONDS = 6.0
"""After which the last spans are exported (OTEL_BSP_SCHEDULE_DELAY is 5 s)."""


def main() -> None:
    chosen = parse()
    with collector() as url:
        rows = variables(url, chosen.before)
        turns = [turn for _ in range(chosen.rounds) for turn in in_turns(rows, chosen)]
    results = medians(turns)
    report("traces", results, as_json=chosen.json)
    sys.exit(1 if any(row.value for row in results if row.metric == FAULTS) else 0)


def parse() -> Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="each with new processes")
    parser.add_argument("--turns", type=int, default=10, help="of each row in a round")
    parser.add_argument("--jobs", type=int, default=1_000, help="a turn; half with an effect")
    parser.add_argument("--before", type=Path, help="a checkout from before traces")
    parser.add_argument("--quick", action="store_true", help="one short turn")
    chosen = parser.parse_args()
    if chosen.before and (chosen.before / "streams" / "tracing").exists():
        parser.error(f"{chosen.before} has traces: name a checkout from before them")
    if chosen.quick:
        chosen.rounds, chosen.turns, chosen.jobs = 1, 1, 400
    return chosen


def variables(url: str, before: Path | None) -> dict[str, dict[str, str]]:
    """The variables of each row's processes."""
    common = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    found = {
        row: {"OTEL_SDK_DISABLED": "true"}
        if share is None
        else {**common, "OTEL_SDK_DISABLED": "false", "OTEL_TRACES_SAMPLER_ARG": share}
        for row, share in SHARES.items()
    }
    if before is not None:
        # Without the safe path, `-m` would find the code in the current directory first.
        path = f"{before.resolve()}{os.pathsep}{APPLICATION_PATH}"
        found[BEFORE] = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return found


def in_turns(rows: Mapping[str, dict[str, str]], chosen: Namespace) -> Iterator[list[Result]]:
    """One round: the figures of each turn with their ratios, then what became of the spans."""
    with ExitStack() as stack:
        systems = {row: started(stack, env) for row, env in rows.items()}
        for row, system in systems.items():
            list(measured(row, system, chosen.jobs))
        for turn in range(chosen.turns):
            results = [
                result
                for row, system in turned(systems, turn)
                for result in measured(row, system, chosen.jobs)
            ]
            yield [*results, *ratios(results)]
        time.sleep(_EXPORT_SECONDS)
        yield [result for row, system in systems.items() for result in spans(row, system)]


def started(stack: ExitStack, env: Mapping[str, str]) -> Tidegate:
    """A pipeline with a broker and data of its own, until the stack closes."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-"))
    return stack.enter_context(tidegate(Path(folder), OURS, env=env))


def turned(systems: Mapping[str, Tidegate], by: int) -> list[tuple[str, Tidegate]]:
    """The rows in another order for each turn."""
    all_ = list(systems.items())
    return all_[by % len(all_) :] + all_[: by % len(all_)]


def measured(row: str, system: Tidegate, jobs: int) -> Iterator[Result]:
    """Each load in turn, and the jobs that did not end once; a load that stalls is the last."""
    wrong = 0
    try:
        for load in (Load("noop", jobs), Load("effect", jobs // 2)):
            run = system.run(load)
            wrong += run.wrong
            found = [] if run.wrong else figures(row, load, run)
            said = ", ".join(f"{each.value:,.1f} {each.unit}" for each in found[:2])
            print(f"{row}, {title(load)}: {said or f'{run.wrong} WRONG'}", file=sys.stderr)
            yield from found
    except Stalled as why:
        print(f"{row} stalled: {why}", file=sys.stderr)
        wrong += 1
    yield Result(row, FAULTS, wrong, "jobs")


def spans(row: str, system: Tidegate) -> Iterator[Result]:
    """How many were exported and lost; a fault is a row that should have some, or none."""
    counted = {name: system.counted(metric) for name, metric in _COUNTED.items()}
    yield from (Result(row, name, value, "spans") for name, value in counted.items())
    yield Result(row, FAULTS, float(any(counted.values()) != bool(SHARES.get(row))), "jobs")


def ratios(results: Sequence[Result]) -> Iterator[Result]:
    """Speed and processor time of each row to those of `off`."""
    found = {(result.contender, result.metric): result.value for result in results}
    compared = [metric for name in NAMES.values() for metric in (name, f"{name}, {PROCESSOR}")]
    for (row, metric), value in found.items():
        if row != OFF and metric in compared and found.get((OFF, metric)):
            percent = round(100 * value / found[OFF, metric], 1)
            yield Result(row, f"{metric}, to {OFF}", percent, "%")


class _Taking(BaseHTTPRequestHandler):
    """Takes every export, and keeps nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")  # an empty answer has no field: all is taken
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


@contextmanager
def collector() -> Iterator[str]:
    """The address of a collector that runs in this process, beside the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Taking) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


if __name__ == "__main__":
    main()
