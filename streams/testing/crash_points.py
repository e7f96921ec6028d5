"""`crash_points`: the loop that runs a test again with a crash at every point of its runs."""

from __future__ import annotations

from collections.abc import Iterator

from streams.errors import ConfigError


class Crash:
    """One pass of the loop. `Bench(app, crash=crash)` kills its worker at the point of this pass.

    The first pass has none: it finds the points. As a text it names the point.
    """

    def __init__(self, number: int = 0, found: tuple[str, ...] = ()) -> None:
        self.points: list[str] = []
        self._number = number
        self._found = found
        self._has_bench = False

    def __repr__(self) -> str:
        return f"<Crash {self}>"

    def __str__(self) -> str:
        if not self._number:
            return "no crash: the first pass finds the crash points"
        where = f"crash point {self._number} of {len(self._found)}"
        if self.has_happened:
            return f"{where}: {self.points[self._number - 1]}"
        return f"{where}, not reached so far: {self._found[self._number - 1]}"

    @property
    def has_happened(self) -> bool:
        """Whether the worker was killed at the point of this pass."""
        return 0 < self._number <= len(self.points)

    def begin(self) -> None:
        """Note that a bench has this crash.

        Raises:
            ConfigError: another one has it already.
        """
        if self._has_bench:
            raise ConfigError("a pass of crash_points() is for one bench: make one in the loop")
        self._has_bench = True

    def happens_at(self, point: str) -> bool:
        """Whether the worker dies here; call it at each point, in their order."""
        self.points.append(point)
        return len(self.points) == self._number


def crash_points() -> Iterator[Crash]:
    """Yield one `Crash` for each pass of a loop that makes its bench with it.

    The first pass is without a crash. In each of the others the worker's process dies at one of the
    points that the first has passed, and another one starts. What fails in the `with` block of the
    bench names the point.

    Raises:
        AssertionError: the loop runs no job in a bench with `crash=crash`, or the test comes to a
            point in the first pass, and not in a later one.
    """
    first = Crash()
    yield first
    found = tuple(first.points)
    if not found:
        raise AssertionError("no crash point: run a job in a `with Bench(app, crash=crash)`")
    for number in range(1, len(found) + 1):
        crash = Crash(number, found)
        yield crash
        if not crash.has_happened:
            raise AssertionError(f"{crash}: let each pass do the same, up to its crash")
