"""The rules of flow control: what a route or a job type declares can be kept, and has an effect."""

from __future__ import annotations

from collections.abc import Iterator

from streams.topology.by_value import INPUT, fault
from streams.topology.flow_control import Debounce, FlowControl
from streams.topology.model import Route, Topology
from streams.topology.problems import Problem, near, problem
from streams.topology.yaml_tree import KeyPath

Found = Iterator[Problem]
_RULES = ("debounce", "singleton", "batch")


def flow_control(topology: Topology) -> Found:
    """Every broken rule of routes and job types."""
    for index, route in enumerate(topology.routes):
        path: KeyPath = ("routes", index)
        yield from _declared(route, path)
        yield from _of_route(route, path)
        yield from _priority(topology, route, (*path, "priority"))
    for name, declared in topology.job_types.items():
        yield from _declared(declared, ("job_types", name))


def _declared(declared: FlowControl, path: KeyPath) -> Found:
    given = [name for name in _RULES if getattr(declared, name) is not None]
    if len(given) > 1:
        yield problem(
            f"{' and '.join(given)} stand beside each other, and a job follows one of them; "
            "remove the others",
            (*path, given[-1]),
        )
    rule = declared.rule
    if rule is None:
        return
    place = (*path, given[0], "by")
    wrong = None if rule.by is None else fault(rule.by, of_inputs=True)
    if wrong is not None:
        yield problem(wrong, place)
    if isinstance(rule, Debounce) and (rule.max_seconds or rule.seconds) < rule.seconds:
        yield problem(
            f"max_seconds {rule.max_seconds:g} is below seconds {rule.seconds:g}, so no "
            "event could put the run off; raise it, or shorten seconds",
            (*path, "debounce", "max_seconds"),
        )


def _of_route(route: Route, path: KeyPath) -> Found:
    """Events have no input, and a route without a job has none that could wait."""
    rule = route.rule
    if rule is not None and (rule.by or "").startswith(INPUT):
        yield problem(
            f"{rule.by!r} is a value of submitted jobs, and a route makes jobs of events; write "
            "a value of events, or declare it on the job type",
            path,
        )
    if route.job is None:
        for name in FlowControl.__dataclass_fields__:
            if getattr(route, name) is not None:
                yield problem(
                    f"the route makes no job, so {name} has no effect; add job, or remove it",
                    (*path, name),
                )


def _priority(topology: Topology, route: Route, path: KeyPath) -> Found:
    """Every priority that a route can give is declared, also for a value that it does not list."""
    chosen = route.priority_by
    names = [(path, route.priority)] if chosen is None else [((*path, "else"), route.priority)]
    if chosen is not None:
        names += [((*path, value), name) for value, name in chosen.levels]
        wrong = fault(chosen.by) if chosen.by else f"by is missing; add it{_EXAMPLE}"
        if wrong is not None:
            yield problem(wrong, (*path, "by") if chosen.by else path)
        if not route.priority:
            yield problem(
                f"else is missing, the priority of all other events; add it{_EXAMPLE}", path
            )
            names = names[1:]
    for place, name in names:
        if name not in topology.priorities:
            hint = near(name, topology.priorities)
            yield problem(
                f"priority {name!r} is not declared{hint}; "
                f"write one of {', '.join(topology.priorities)}",
                place,
            )


_EXAMPLE = ": {by: attributes.plan, enterprise: interactive, else: webhook}"
