"""Every option that several commands have, declared once, and how a command gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Bootstrap = Annotated[str | None, typer.Option(help="Kafka's bootstrap servers.", metavar="HOSTS")]
TopologyFile = Annotated[
    Path | None,
    typer.Option("--topology", help="File that overlays the built-in topology.", metavar="FILE"),
]
StateDir = Annotated[
    Path | None, typer.Option(help="Where this process keeps its state.", metavar="DIR")
]
Instance = Annotated[
    str | None, typer.Option(help="Name of this process in its group; stable.", metavar="NAME")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.", metavar="HOST")]
Port = Annotated[int | None, typer.Option(help="Port to serve HTTP on.", metavar="PORT")]
ProbePort = Annotated[
    int | None, typer.Option(help="Port of /metrics, /healthz, /readyz; 0: any.", metavar="PORT")
]
LogFormat = Annotated[str | None, typer.Option(help="console or json.", metavar="FORMAT")]
TlsCert = Annotated[
    Path | None,
    typer.Option(help="Its certificate chain, PEM; with it, serve https.", metavar="FILE"),
]
TlsKey = Annotated[
    Path | None, typer.Option(help="The certificate's key, PEM. (in --tls-cert)", metavar="FILE")
]
Application = Annotated[str, typer.Option(help="The application.", metavar="MODULE:ATTR")]
Slots = Annotated[
    int | None, typer.Option(min=1, help="Handlers of a pool at once. (20 by default)", metavar="N")
]
Pools = Annotated[
    list[str] | None,
    typer.Option(
        help="Pool whose jobs it runs, `slow` or `slow=SLOTS`. Repeatable.", metavar="POOL"
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]

Url = Annotated[
    str | None,
    typer.Option(
        help="The operator's API. (that of a running `tidegate dev`, else port 8080)",
        metavar="URL",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the admin token. (TIDEGATE_ADMIN_TOKEN by default)", metavar="FILE"
    ),
]
DevDir = Annotated[
    Path | None,
    typer.Option(help="Directory of `tidegate dev`, which keeps its token there.", metavar="DIR"),
]
Id = Annotated[str, typer.Argument(metavar="ID")]
TenantId = Annotated[str, typer.Argument(metavar="TENANT")]
JobId = Annotated[str, typer.Argument(metavar="JOB_ID")]
ArtifactId = Annotated[str, typer.Argument(metavar="ARTIFACT_ID")]
EventId = Annotated[str, typer.Argument(metavar="EVENT_ID")]
Note = Annotated[str, typer.Option(help="Why; kept with it.", metavar="TEXT")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant's.", metavar="TENANT")]
Type = Annotated[str | None, typer.Option("--type", help="Only of this type.", metavar="TYPE")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="Show at most this many.", metavar="N")]
Cursor = Annotated[
    str | None, typer.Option(help="`next_cursor` of the page before.", metavar="CURSOR")
]
OfTenant = Annotated[str, typer.Option("--tenant", help="Whose it is.", metavar="TENANT")]
Ingress = Annotated[
    str | None,
    typer.Option(help="Where vendors deliver. (where the API is, by default)", metavar="URL"),
]
Watch = Annotated[bool, typer.Option("--watch", help="Then watch the job until it ends.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --all: only count them.")]


@dataclass(frozen=True)
class Page:
    """The options of a list: whose items, how many, and behind which page."""

    tenant: Tenant = None
    limit: Limit = 50
    cursor: Cursor = None

    @property
    def query(self) -> dict[str, str | int | None]:
        """The parameters as the API names them."""
        return {"tenant_id": self.tenant, "limit": self.limit, "cursor": self.cursor}


def _option(name: str, kind: Any, default: Any = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


CONNECTION = (
    _option("url", Url),
    _option("token_file", TokenFile),
    _option("data_dir", DevDir),
)
AS_JSON = _option("as_json", AsJson, False)
_STAGE = (
    _option("bootstrap", Bootstrap),
    _option("topology", TopologyFile),
    _option("data_dir", StateDir),
    _option("instance", Instance),
    _option("host", Host),
)
_LOG_FORMAT = _option("log_format", LogFormat)
_STREAM = (*_STAGE, _option("probe_port", ProbePort), _LOG_FORMAT)
_OF_ONE_STAGE = {"operator": (_option("tls_cert", TlsCert), _option("tls_key", TlsKey))}
OF_STAGES = {
    "http": (*_STAGE, _option("port", Port), _LOG_FORMAT),
    "stream": _STREAM,
    "sender": _STREAM,
    "worker": (
        _option("app", Application, Parameter.empty),
        _option("slots", Slots),
        _option("pool", Pools),
        *_STREAM,
    ),
}
"""The options of a stage's process, by its kind."""


def of_stage(name: str, kind: str) -> tuple[Parameter, ...]:
    """Return the options of a stage's process: those of its kind, and its own."""
    return (*OF_STAGES[kind], *_OF_ONE_STAGE.get(name, ()))


def with_options(command: Callable[..., None], options: Iterable[Parameter]) -> Callable[..., None]:
    """Give a function of `**given` this signature, from which typer makes its options."""
    options = tuple(options)
    command.__signature__ = Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


def own_options(function: Callable[..., Any], skip: int = 1) -> list[Parameter]:
    """Return the options that a function declares: its parameters, without the first ones.

    A parameter whose type is a dataclass stands for one option for each field.
    """
    return [option for each in _own(function, skip) for option in _options_of(each)]


def arguments(function: Callable[..., Any], given: dict[str, Any], skip: int = 1) -> dict[str, Any]:
    """Return the arguments for a function from the values of its own options."""
    return {each.name: _argument(each, given) for each in _own(function, skip)}


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command of a function that takes options in dataclasses."""

    def run(**given: Any) -> None:
        function(**arguments(function, given, skip=0))

    run.__doc__ = function.__doc__
    return with_options(run, own_options(function, skip=0))


def _own(function: Callable[..., Any], skip: int) -> list[Parameter]:
    return list(signature(function, eval_str=True).parameters.values())[skip:]


def _options_of(parameter: Parameter) -> Iterable[Parameter]:
    kind = parameter.annotation
    if not is_dataclass(kind):
        return [parameter.replace(kind=Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(kind, include_extras=True)
    return [_option(field.name, hints[field.name], field.default) for field in fields(kind)]


def _argument(parameter: Parameter, given: dict[str, Any]) -> Any:
    kind: Any = parameter.annotation
    if not is_dataclass(kind):
        return given[parameter.name]
    made: Any = kind
    return made(**{field.name: given[field.name] for field in fields(kind)})
