"""`make simulate`: many seeds on all cores; the shortest story of each kind of failure."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from simulation.run import Failure, play, shrink, silent
from simulation.story import Op, Story, draw
from streams.runtime.driver import START_MS

_CHUNK = 25
_SHRINK_SECONDS = 30.0
_MOST_TOLD = 5


def main() -> None:
    """Exit code 1 where a guarantee broke."""
    _same_hashes()
    args = _arguments()
    with silent():
        sys.exit(_one(args) if args.seed is not None or args.story else _many(args))


def _same_hashes() -> None:
    """Sets are walked in the order of their hashes: make that one a seed's, too."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--seed", type=int, help="this one alone, with its shortest story")
    parser.add_argument("--types", nargs="*", default=(), help="the types of all jobs, like tree")
    parser.add_argument("--story", help="a story to play, in the JSON that a failure prints")
    parser.add_argument("--verbose", action="store_true", help="print everything that happens")
    parser.add_argument("--whole", action="store_true", help="do not shrink the story")
    return parser.parse_args()


def _one(args: argparse.Namespace) -> int:
    story = _read(args.story) if args.story else draw(args.seed, types=tuple(args.types))
    failure = play(story)
    if failure is not None and not args.whole and not args.story:
        failure = shrink(failure, _SHRINK_SECONDS)
        story = failure.story
    if args.verbose:
        play(story, _print)
    if failure is None:
        print(f"seed {story.seed}: every guarantee holds")
        return 0
    print(told(failure))
    return 1


def _many(args: argparse.Namespace) -> int:
    started, done, failures = time.monotonic(), 0, list[Failure]()
    with multiprocessing.Pool(args.jobs, initializer=_quiet) as pool:
        for some in pool.imap_unordered(_chunk, _chunks(args)):
            done += min(_CHUNK, args.seeds)
            failures += some
            for each in some:
                print(f"\rseed {each.story.seed}: {each.name}", flush=True)
            rate = done / (time.monotonic() - started)
            print(
                f"\r{done} seeds, {rate:.0f} a second, {len(failures)} failed", end="", flush=True
            )
    print()
    seen: set[str] = set()
    for failure in sorted(failures, key=lambda failed: len(failed.story.ops)):
        if failure.name not in seen and len(seen) < _MOST_TOLD:
            seen.add(failure.name)
            print(told(shrink(failure, _SHRINK_SECONDS)), end="\n\n")
    return 1 if failures else 0


def told(failure: Failure) -> str:
    """A failure as a person reads it."""
    lines = [f"seed {failure.story.seed}: {failure.name}: {failure.detail}"]
    lines += [f"  {key}: {value}" for key, value in failure.story.setup.items()]
    lines += [
        f"  +{op.gap:g} s  {op.name} {' '.join(map(str, op.args))}" for op in failure.story.ops
    ]
    about = f"--seed {failure.story.seed}"
    if failure.story.types:
        about += f" --types {' '.join(failure.story.types)}"
    lines.append(f'run it alone: make simulate ARGS="{about} --verbose"')
    lines.append(f"or its story: --story '{_written(failure.story)}'")
    return "\n".join(lines)


def _written(story: Story) -> str:
    ops = [[op.gap, op.name, list(op.args)] for op in story.ops]
    return json.dumps({"seed": story.seed, "setup": story.setup, "ops": ops})


def _read(text: str) -> Story:
    found = json.loads(text)
    ops = tuple(Op(gap, name, tuple(args)) for gap, name, args in found["ops"])
    return Story(found["seed"], found["setup"], ops)


def _chunks(args: argparse.Namespace) -> Iterator[tuple[range, tuple[str, ...]]]:
    """Some seeds at a time, and the types of their jobs."""
    end = args.first + args.seeds
    for start in range(args.first, end, _CHUNK):
        yield range(start, min(start + _CHUNK, end)), tuple(args.types)


def _chunk(some: tuple[range, tuple[str, ...]]) -> list[Failure]:
    seeds, types = some
    played = (play(draw(seed, types=types)) for seed in seeds)
    return [failure for failure in played if failure is not None]


def _quiet() -> None:
    silent().__enter__()


def _print(at_ms: int, *what: object) -> None:
    print(f"{(at_ms - START_MS) / 1000:12.1f}  {' '.join(map(str, what))}")
