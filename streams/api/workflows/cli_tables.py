"""What the commands on workflows print for people: lists, and the jobs of one as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from streams.cli.cells import Json, console_of_any_width, plain, print_fields, tell
from streams.cli.lists import page
from streams.cli.operator_command import Api
from streams.serde import approval_states, job_states
from streams.serde.step_ids import shown_id

Below = Callable[[str], Json]
"""A job of the tree as the API shows it, by its id."""

_MOST_LOOKS = 40
"""How many jobs' own levels one tree shows; the others tell how many jobs are below them."""
_APPROVALS = 5


def counted(jobs: Mapping[str, int]) -> str:
    """The numbers of jobs by state, as one text."""
    return ", ".join(f"{number:,} {status}" for status, number in jobs.items())


def _row(found: Json) -> Json:
    root, error = found["root"] or {}, found["error"] or {}
    told = {"type": root.get("type"), "jobs": counted(found["jobs"]), "error": error.get("error")}
    return {**found, **told}


workflows = page(
    "workflows",
    ("status", "type", "workflow_id", "tenant_id", "created_at", "ended_at", "jobs", "error"),
    _row,
)
"""A list of workflows."""


def facts(found: Json) -> list[str]:
    """What a line of `workflows watch` tells, the status first; none of it can steer a terminal."""
    told = [found["status"], counted(found["jobs"])]
    asked = found["approvals"]
    for each in asked["pending"]:
        told.append(f"{_people(asked['jobs'])}: approval {each['approval_id']} ({each['key']})")
    if found["error"] is not None and found["status"] != job_states.SUCCEEDED:
        told.append(f"error in {found['error']['job_id']}: {found['error']['error']}")
    if found["status"] == job_states.SUCCEEDED and found["root"]:
        told.append(f"result {plain(found['root']['result'])}")
    return [plain(each) for each in told]


def cancelled(found: Json) -> None:
    """What became of the cancel of a workflow."""
    for job in found["cancelled"]:
        told = "is told to end" if job["status"] in job_states.LIVE else f"is {job['status']}"
        tell(f"{job['job_id']} ({job['type']}) {told}")
    if not found["cancelled"]:
        tell("its jobs have ended meanwhile")


def tree(api: Api, found: Json, below: Below, levels: int, only: Mapping[str, str]) -> None:
    """A workflow, or one job of it, with the jobs below; `only` are a page's filter and cursor."""
    console = console_of_any_width()
    top = found if "job_id" in found else found["root"]
    if "job_id" not in found:
        _summary(console, found)
    if top is None:
        tell("its root is not kept any more")
        return
    budget = Counter(looks=_MOST_LOOKS)
    drawn = Tree(_line(top))
    _grow(drawn, top["children"], below, levels, budget, only)
    console.print(drawn)
    _advise(api, found, top)


def _summary(console: Console, found: Json) -> None:
    error, asked, roots = found["error"], found["approvals"]["jobs"], found["roots"]["total"]
    print_fields(
        console,
        {
            "workflow_id": found["workflow_id"],
            "tenant_id": found["tenant_id"],
            "status": found["status"],
            "jobs": counted(found["jobs"]),
            "roots": f"{roots:,}; the first is shown" if roots > 1 else None,
            "other_lives": ", ".join(found.get("other_lives", ())) or None,
            "asks": _people(asked) if asked else None,
            "newest error": f"{error['error']} (in {error['job_id']})" if error else None,
            "created_at": found["created_at"],
            "ended_at": found["ended_at"],
        },
    )


def _people(number: int) -> str:
    return "a job waits for a person" if number == 1 else f"{number:,} jobs wait for people"


def _grow(
    branch: Tree,
    level: Json,
    below: Below,
    levels: int,
    budget: Counter[str],
    only: Mapping[str, str],
) -> None:
    """Add the jobs of a level, each with its own level as far as that is wanted."""
    for job in level["jobs"]:
        number = job["children"]["total"]
        looks = bool(number) and levels > 1 and budget["looks"] > 0
        if not looks:
            branch.add(_line(job, number))
            continue
        budget["looks"] -= 1
        node = below(job["job_id"])
        _grow(branch.add(_line(node)), node["children"], below, levels - 1, budget, {})
    if level["cursor"] is not None or only:
        branch.add(Text(_rest(level, only), style="dim"))


def _rest(level: Json, only: Mapping[str, str]) -> str:
    """What a page of a level leaves out."""
    if only:
        return f"in all {level['total']:,}: {counted(level['by_status'])}"
    shown = Counter(job["status"] for job in level["jobs"])
    rest = {name: number - shown[name] for name, number in level["by_status"].items()}
    left = {name: number for name, number in rest.items() if number > 0}
    return f"… and {sum(left.values()):,} more: {counted(left)}"


def _line(job: Json, number: int = 0) -> Text:
    """A job on one line: what it is, its state, and what it waits for or why it failed."""
    type_, call = plain(job["type"]), plain(shown_id(job["call"] or ""))
    name = call if call.startswith(type_) else f"{type_} {call}".strip()
    line = Text(f"{name} ").append(f"{job['job_id']} ", style="dim")
    line.append(job["status"], style="bold")
    because = job["waits_for"] or job["last_error"]
    if because:
        line.append(f": {plain(because)}")
    if job["replayed_as"]:
        line.append(f", replayed as {job['replayed_as']}")
    if number:
        line.append(f" ({number:,} {'job' if number == 1 else 'jobs'} below it)")
    return line


def _advise(api: Api, found: Json, top: Json) -> None:
    """How to see more: the next page, and what waits for a person."""
    asked = found["approvals"]
    pending = asked["pending"] if isinstance(asked, dict) else asked
    pending = [each for each in pending if each["status"] == approval_states.PENDING]
    for each in pending[:_APPROVALS]:
        tell(f"decide: {api.command('approvals', 'show', each['approval_id'])}")
    if job_states.NEEDS_REVIEW in (top["status"], *top["children"]["by_status"]):
        tell(f"review: {api.command('jobs', 'review')}")
    if (cursor := top["children"]["cursor"]) is not None:
        tell(f"more: --cursor {cursor}")
