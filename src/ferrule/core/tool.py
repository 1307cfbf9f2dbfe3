"""The base class of all tools, and one validated call of a tool (`Invocation`)."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, StrEnum
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypedDict, TypeVar, cast, get_args, get_origin

from ferrule.core.access import READS_ANYTHING, WRITES_ANYTHING, Touch, located
from ferrule.core.call import NOTHING_SAID, CallInfo, new_call_id
from ferrule.core.context import Session
from ferrule.core.description import Description
from ferrule.core.errors import DefinitionError, ToolError
from ferrule.core.shown_text import hidden_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from ferrule.core.access import Touches
    from ferrule.core.context import ToolContext
    from ferrule.core.outputs import OutputType
    from ferrule.core.params import Params
    from ferrule.core.problems import Problem


logger = logging.getLogger("ferrule.tools")

P = TypeVar("P")

_NAME = re.compile(r"\S{1,128}")
_BRACES = re.compile(r"\{(\w+)\}")
_NEEDS = frozenset({"tenant", "user", "role", "model", "deps"})
CACHE_SECONDS = 300.0


class Kind(StrEnum):
    """How far a tool's effects go, which decides whether its calls may run without asking."""

    READONLY = "readonly"
    WRITE = "write"
    EXECUTE = "execute"


AnyKind = Kind | Literal["readonly", "write", "execute"]


class Style(Enum):
    """How a tool's function is written, which decides where it runs."""

    ASYNC = "async"
    SYNC = "sync"
    ASYNC_STREAM = "async stream"
    SYNC_STREAM = "sync stream"


class ToolOptions(TypedDict, total=False):
    """All options of a tool besides its name, its parameters and its function.

    `touches`, `signature`, `always_rule` and `summary` describe a call. Each is a constant, a pattern with parameters
    in braces (`writes("path", "{file_path}")`, `"{environment}"`), or a function of the parameters. `describe` replaces
    all of them, and gets the session too.
    """

    display_name: str
    kind: AnyKind
    version: str
    category: str
    tags: Iterable[str]
    description: Description | str
    read_only: bool
    concurrency_safe: bool
    runs_alone: bool
    strict: bool
    enabled: bool
    dangerous: bool
    requires_permission: bool
    roles: Iterable[str]
    idempotent: bool
    timeout: float | None
    cache: bool | float
    repair: bool
    needs: Iterable[Literal["tenant", "user", "role", "model"]]
    max_result: int | None
    grace: float | None
    may_block: bool
    remote: str
    deferred: bool
    doing: str
    touches: Iterable[Touch] | Touch | Callable[[Any], Iterable[Touch] | Touch]
    signature: str | Callable[[Any], str]
    always_rule: str | Callable[[Any], str]
    summary: str | Callable[[Any], str]
    only_reads: bool | Callable[[Any], bool]
    describe: Callable[[Any, Session], CallInfo]
    ready: Callable[[Session], Awaitable[None]]
    preview: Callable[[Any, Session], Awaitable[str]]
    check: Callable[[Any], Iterable[Problem] | None]
    render: Callable[[Any], str | None]
    display: Callable[[Any], str | None]


OPTIONS = frozenset(ToolOptions.__annotations__)
_CALL_OPTIONS = ("touches", "signature", "always_rule", "summary", "only_reads")
_METHODS = ("describe", "ready", "preview", "check", "render", "display")
"""Methods of a tool's class, or functions given to a tool that is made without a class."""
_NUMBER = (int, float, type(None))
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("display_name", "version", "category", "doing", "remote"), str),
    **dict.fromkeys(("timeout", "grace"), _NUMBER),
    "cache": (int, float),
    "max_result": (int, type(None)),
    "description": (str, Description, type(None)),
}
_TYPE_WORDS: dict[Any, str] = {
    str: "text",
    _NUMBER: "a number of seconds",
    (int, float): "a number of seconds, True or False",
    (int, type(None)): "a number of characters",
    (str, Description, type(None)): "text or a Description",
}


class Tool(Generic[P]):
    """A tool: subclass it, give it a name and parameters, and write `run`.

    `class Greet(Tool[GreetParams])` takes its parameters from that pydantic model. `run` may be a plain method
    (it then runs in a thread), `async`, or a generator of either kind, whose pieces are streamed.
    """

    name: str = ""
    display_name: str = ""
    kind: Kind = Kind.EXECUTE
    kind_given: bool = False
    """Whether its author gave a kind. A tool without one counts as `execute` when it is served to others."""
    version: str = "1.0.0"
    category: str = "general"
    tags: frozenset[str] = frozenset()
    strict: bool = False
    concurrency_safe: bool = True
    """Whether its calls may run beside others of a batch, as far as their touches allow. False where it says so, and
    where a batch runs it in order anyway."""
    runs_alone: bool = False
    """Whether no call of its batch runs beside it, although calls from elsewhere may."""
    takes_turns: bool = False
    """Whether its author said that it is not concurrency-safe, so that it runs one call at a time."""
    enabled: bool = True
    repair: bool = True
    """Whether harmless mistakes in its arguments are repaired, such as `5` for `"5"`."""
    dangerous: bool = False
    requires_permission: bool = False
    """Whether a call asks unless a rule or the mode allows it: all but read-only tools, and those that say so."""
    asks_anyway: bool = False
    """Whether its author said that it requires permission, so that it asks whatever its kind and the mode."""
    roles: frozenset[str] = frozenset()
    idempotent: bool = False
    timeout: float | None = None
    needs: frozenset[str] = frozenset()
    deps_type: Any = None  # the `Shop` of a tool that takes a `ToolContext[Shop]`
    max_result: int | None = None
    grace: float | None = None
    """Seconds that it needs to stop, if more than `Limits.grace`, as for ending processes or undoing its work."""
    may_block: bool = True
    """Whether an async tool may block its event loop. Servers run such tools on a loop of their own. One that never
    blocks runs on the server's loop, which is quicker."""
    remote: str = ""
    """The pool of workers that it runs on; empty to run where the call is made."""
    deferred: bool = False
    """Whether it never runs: an agent's turn pauses, and its result comes from elsewhere."""
    calls_tools: bool = False
    """Whether it may change something through other tools, although it only reads itself."""
    preview_seconds: float = 10.0
    """Seconds that `preview` may take. After that the user is asked without it."""
    doing: str = ""
    """What a user sees while it runs, with parameters in braces: ``reading `{file_path}` ``."""
    touches: Any = None
    signature: Any = None
    always_rule: Any = None
    summary: Any = None
    only_reads: Any = False
    """What a call does, in the forms of `ToolOptions`, or as methods. `CallInfo` explains each."""
    read_only: bool
    """Follows from the kind unless given."""
    cache: float
    """Seconds for which a result may be used again for the same call; 0 for never."""

    workspace: Path | None = None
    """The folder that it was made for, if any. A runtime without a session works there."""

    style: Style
    wants_context: bool = True
    has_check: bool
    has_ready: bool = False
    has_preview: bool
    has_words: bool
    has_render: bool
    has_touches: bool
    has_signature: bool
    """Whether it has its own check, preparation, preview, text for results (`render` or `display`), `render`, touches,
    signature. What it lacks is not called."""
    checks_output: bool
    """Whether its results are checked against the type that it declares."""
    exact_outputs: frozenset[type] = frozenset()
    """Types whose values all fit; known after the first result."""
    _params: Params[P] | None = None
    _output: OutputType | None = None
    _description: Description | None = None
    _expected_form: str | None = None
    _example_faults: tuple[str, ...] | None = None
    _output_schema: dict[str, Any] | Literal[False] | None = False
    """As its author gave it; False where it follows from the annotation."""
    _derived_output_schema: dict[str, Any] | Literal[False] | None = False
    _described: bool = False
    _options_from_class: ClassVar[tuple[str, ...]] = tuple(OPTIONS - {"description", *_CALL_OPTIONS, *_METHODS})

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "run" in vars(cls):
            _refuse_wrong_run(cls)
        if "__init__" in vars(cls):
            # Make a class whose `__init__` doesn't call Ferrule's own fail when it is made, not at its first call.
            own: Any = vars(cls)["__init__"]

            @wraps(own)
            def __init__(self: Tool[Any], *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it is one
                own(self, *args, **kwargs)
                if "style" not in vars(self):
                    raise DefinitionError(_unsettled(cls))

            cls.__init__ = __init__

    def __init__(self, **options: Any) -> None:
        said = {member for owner in type(self).__mro__ if owner is not Tool for member in vars(owner)}
        declared: dict[str, Any] = {key: getattr(type(self), key) for key in self._options_from_class if key in said}
        own = inspect.getattr_static(type(self), "description")
        if not isinstance(own, property):  # a class may simply write `description = "…"`
            declared["description"] = own
        if not any("run" in vars(owner) for owner in type(self).__mro__ if owner is not Tool):
            raise DefinitionError(f"{type(self).__name__} has no `run`. Write `def run(self, params, context)`.")
        self._settle(self.name or type(self).__name__, {**declared, **options}, style_of(self.run))
        from ferrule.core.signatures import wanted_deps_of

        self.deps_type = wanted_deps_of(self.run)

    def _settle(self, name: str, options: Mapping[str, Any], style: Style) -> None:
        """Check the options and apply them. Every way of making a tool ends here."""
        if not isinstance(name, str) or not _NAME.fullmatch(name) or hidden_in(name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"{name!r} cannot name a tool: use 1 to 128 visible characters and no white space.")
        for key, value in options.items():
            if key not in OPTIONS:
                raise DefinitionError(f"`{name}`: there is no tool option `{key}`.")
            if (wanted := _TYPES.get(key)) is not None and not isinstance(value, wanted):
                raise DefinitionError(f"`{name}`: {key} must be {_TYPE_WORDS[wanted]}, not {value!r}.")
        self.name = name
        self.style = style
        own = {member for owner in type(self).__mro__ if owner is not Tool for member in vars(owner)}
        for key in (*_CALL_OPTIONS, *_METHODS):
            if options.get(key) is not None:
                if key in _METHODS and not callable(options[key]):
                    raise DefinitionError(f"`{name}`: {key} must be a function, not {options[key]!r}.")
                setattr(self, key, options[key])
                own.add(key)
        self.has_check = "check" in own
        self.has_ready = "ready" in own
        self.has_preview = "preview" in own
        self.has_touches = "touches" in own or "describe" in own
        self.has_signature = "signature" in own or "describe" in own
        self.has_render = "render" in own
        self.has_words = self.has_render or "display" in own
        self._described = not own.isdisjoint(_CALL_OPTIONS)
        self.checks_output = style in (Style.ASYNC, Style.SYNC) or "output_schema" in own
        for key in ("display_name", "version", "category", "strict", "runs_alone", "enabled", "dangerous",
                    "idempotent", "repair", "timeout", "max_result", "grace", "may_block",
                    "remote", "deferred", "doing"):  # fmt: skip
            if key in options:
                setattr(self, key, options[key])
        for key in ("tags", "roles", "needs"):
            if key in options:
                setattr(self, key, _words(name, key, options[key]))
        self.kind_given = "kind" in options or "read_only" in options
        try:
            self.kind = Kind(options.get("kind", Kind.EXECUTE))
        except ValueError:
            kinds = ", ".join(f'"{kind.value}"' for kind in Kind)
            raise DefinitionError(f"`{name}`: kind must be one of {kinds}, not {options['kind']!r}.") from None
        self.read_only = bool(options.get("read_only", self.kind is Kind.READONLY))
        self.asks_anyway = bool(options.get("requires_permission", False))
        self.requires_permission = self.asks_anyway or self.dangerous or not self.read_only
        self.takes_turns = not options.get("concurrency_safe", True)
        writes_anything = self.touches is WRITES_ANYTHING or not (self.has_touches or self.read_only)
        self.concurrency_safe = not (self.takes_turns or self.runs_alone or writes_anything)
        cache = options.get("cache", False)
        self.cache = CACHE_SECONDS if cache is True else float(cache)
        if self.cache and not self.read_only:
            raise DefinitionError(
                f'`{name}`: only a read-only tool may be cached. Say kind="readonly", or leave out cache.'
            )
        if not 0 <= self.cache < float("inf"):
            raise DefinitionError(f"`{name}`: `cache` must be at least 0 seconds, not {self.cache!r}.")
        if unknown := self.needs - _NEEDS:
            raise DefinitionError(f"`{name}` needs {sorted(unknown)}; a context has only {sorted(_NEEDS)}.")
        if self.timeout is not None and not self.timeout > 0:
            raise DefinitionError(f"`{name}`: the time limit must be more than 0 seconds, not {self.timeout!r}.")
        if self.grace is not None and not 0 <= self.grace < float("inf"):
            raise DefinitionError(f"`{name}`: `grace` must be at least 0 seconds, not {self.grace!r}.")
        if self.doing:
            from string import Formatter

            try:
                list(Formatter().parse(self.doing))
            except ValueError as error:
                raise DefinitionError(
                    f"`{name}`: doing is not a pattern: {error}. Write a parameter as {{path}}."
                ) from None
        said = options.get("description")
        if said is not None:
            self._description = Description(said) if isinstance(said, str) else said
            if not isinstance(inspect.getattr_static(type(self), "description"), property):
                vars(self)["description"] = self._description
        if not self.display_name:
            self.display_name = name

    def require_ready(self) -> None:
        """Raise `DefinitionError` if it can never run, so that no registry takes it."""
        if "style" not in vars(self):
            raise DefinitionError(_unsettled(type(self)))
        if type(self).__hash__ is None:  # pyright: ignore[reportUnnecessaryComparison] - a dataclass has none
            name = type(self).__name__
            raise DefinitionError(f"`{name}` compares by value and has no hash. Write @dataclass(eq=False).")

    @property
    def repeatable(self) -> bool:
        """Whether a call that was interrupted may run again."""
        return (self.read_only or self.idempotent) and not self.calls_tools

    @property
    def fault(self) -> str | None:
        """Why it can be neither shown nor called, in a sentence; None for a valid tool.

        Check it before you use many tools, so that an invalid one doesn't harm the others.
        """
        try:
            self._try_out()
        except DefinitionError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - a property of a class can fail in any way
            return f"`{self.name}` cannot be shown: {_told(error)}"
        return None

    def _try_out(self) -> None:
        self.require_ready()
        if not isinstance(said := self.description, Description):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"`{self.name}`: its description must be text or a Description, not {said!r}.")
        _text, _schema = said.text, self.input_schema

    # What the tool is made of

    @property
    def params(self) -> Params[P]:
        """Reads the arguments; compiled at first use."""
        if self._params is None:
            try:
                self._params = self._compile()
            except DefinitionError:
                raise
            except Exception as error:  # a type can fail in any way
                raise DefinitionError(f"`{self.name}`: its parameters cannot be read: {_told(error)}") from error
        return self._params

    @property
    def description(self) -> Description:
        """What it does, in layers. From the docstring unless given."""
        if self._description is None:
            self._description = self._describe()
        return self._description

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        params = self.params
        try:
            return params.schema
        except DefinitionError as error:
            raise DefinitionError(f"`{self.name}`: {error}") from error.__cause__

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the result, if `run` declares its type."""
        if self._output_schema is not False:
            return self._output_schema
        if self._derived_output_schema is False:
            from ferrule.core.outputs import output_schema

            self._derived_output_schema = output_schema(self._returns())
        return self._derived_output_schema

    def _returns(self) -> Any:
        """The return type of its function; Any if that is not known, and for streamed pieces."""
        if self.style in (Style.ASYNC_STREAM, Style.SYNC_STREAM):
            return Any
        try:
            return self._returned()
        except Exception:  # a type may be imported for type checkers alone, or fail in any other way
            logger.debug("What tool %s returns is not known", self.name, exc_info=True)
            return Any

    def nothing_yielded(self) -> Any:
        """The result of a generator that yields nothing: empty text, or an empty list if it yields something else."""
        from ferrule.core.outputs import yields_text

        try:
            return "" if yields_text(self._returned()) else []
        except Exception:  # noqa: BLE001 - as above
            return ""

    def _returned(self) -> Any:
        from ferrule.core.signatures import hints_of

        return hints_of(self.run, returned=True).get("return", Any)

    @property
    def expected_form(self) -> str:
        """The arguments that it takes, in one line for models."""
        if self._expected_form is None:
            from ferrule.core.wording import expected_form

            self._expected_form = expected_form(self.input_schema)
        return self._expected_form

    @property
    def example_faults(self) -> tuple[str, ...]:
        """Of each example of its description why the arguments would be refused; empty where they fit."""
        if self._example_faults is None:
            from ferrule.core.params import to_text

            def fault(arguments: Mapping[str, Any]) -> str:
                try:
                    self.params.load(to_text(arguments))
                except Exception as error:  # noqa: BLE001 - a validator of the author's can raise anything
                    return str(error) or type(error).__name__
                return ""

            self._example_faults = tuple(fault(one.params) for one in self.description.examples)
        return self._example_faults

    def fit_output(self, value: Any) -> Any:
        """A value that it returned, as its declared type; raises `InvalidParamsError` if it doesn't fit."""
        if self._output is None:
            self._output = self._compile_output()
            if self._output is None:
                self.checks_output = False
                return value
            self.exact_outputs = self._output.exact
        return self._output.fit(value)

    def _compile_output(self) -> OutputType | None:
        from ferrule.core.outputs import SchemaOutput, typed_output

        if type(self).output_schema is Tool.output_schema and not self._output_schema:
            return typed_output(self._returns())
        schema = output_schema_of(self)  # from the tool, not from an annotation
        return SchemaOutput(self.name, schema) if schema is not None else None

    def _compile(self) -> Params[P]:
        from ferrule.core.params import ModelParams

        bases = [base for owner in type(self).__mro__ for base in vars(owner).get("__orig_bases__", ())]
        for base in bases:
            origin, model = get_origin(base), next(iter(get_args(base)), None)
            if isinstance(origin, type) and issubclass(origin, Tool) and isinstance(model, type):
                require_model(self.name, model)
                return cast("Params[P]", ModelParams(cast("Any", model)))
        raise DefinitionError(
            f"`{self.name}` does not declare its parameters. Write `class {type(self).__name__}(Tool[ItsParams])`, "
            f"where ItsParams is a pydantic model."
        )

    def _describe(self) -> Description:
        from ferrule.core.description import parse_docstring

        own = type(self).__doc__ if "__doc__" in vars(type(self)) else None
        return parse_docstring(own).description

    # What a tool may say about one call. Each has a safe default

    def check(self, params: P) -> Iterable[Problem] | None:
        """Problems that the schema cannot express, as a list or from a generator."""
        return None

    async def preview(self, params: P, session: Session) -> str:
        """What a call would change, for the user who is asked: a diff or a sentence. It must change nothing.

        Raise `ToolError` if the call would fail anyway, so that the user isn't asked.
        """
        return ""

    async def ready(self, session: Session) -> None:
        """Find out what `describe` has to know of a session and takes time; runs before a call is authorised."""

    def describe(self, params: P, session: Session) -> CallInfo:
        """What one call would do, from the options that describe calls. Override it if those are not enough.

        It runs before the call is authorised. It must be quick, and change and decide nothing.
        """
        if not self._described:
            return NOTHING_SAID

        def said(form: Any) -> Any:
            return form(params) if callable(form) else _filled(self.name, form, params)

        touches: Any = self.touches(params) if callable(self.touches) else self.touches
        return CallInfo(
            located(touches, said, session.directory),
            said(self.signature),
            said(self.always_rule),
            said(self.summary),
            None,
            said(self.only_reads),
        )

    def render(self, value: Any) -> str | None:
        """The text of a result for the model; None leaves it to Ferrule."""
        return None

    def display(self, value: Any) -> str | None:
        """The short text of a result for the user; None leaves it to Ferrule."""
        return None

    # Running

    def build(self, params: Mapping[str, Any] | str | bytes, *, call_id: str | None = None) -> Invocation:
        """Validate parameters into an invocation, which a runtime can run; raises `InvalidParamsError`."""
        if isinstance(params, (str, bytes)):
            text: str | bytes = params
        else:
            from pydantic_core import to_json

            text = to_json(params)
        loaded = self.params.load(text)
        if self.has_check:
            from ferrule.core.problems import InvalidParamsError, own_problems

            if problems := own_problems(self.name, self.check, loaded):
                raise InvalidParamsError(problems)
        return Invocation(self, loaded, call_id or new_call_id())

    def run(self, params: P, context: ToolContext[Any]) -> Any:
        """Do the work: return a value, an `Output`, or raise `ToolError`."""
        raise NotImplementedError(f"{type(self).__name__} has no `run`.")

    def start(self, params: P, context: ToolContext | None) -> Any:
        """Start one run. Returns a value, a coroutine or a generator, depending on `style`."""
        return self.run(params, cast("ToolContext", context))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.version} {self.kind}>"


def style_of(body: Callable[..., Any]) -> Style:
    """The style of a function, a partial or a callable object."""
    while isinstance(body, partial):
        body = cast("partial[Any]", body).func
    if not inspect.isroutine(body):
        body = getattr(body, "__call__", body)  # noqa: B004 - wanted for its kind, not for a test
    if inspect.iscoroutinefunction(body):
        return Style.ASYNC
    if inspect.isasyncgenfunction(body):
        return Style.ASYNC_STREAM
    if inspect.isgeneratorfunction(body):
        return Style.SYNC_STREAM
    return Style.SYNC


def refuse_hidden(held: Any) -> None:
    """Raise `DefinitionError` for a function that has `@tool` below another decorator."""
    if isinstance(inner := getattr(held, "__wrapped__", None), Tool):
        name = cast("Tool[Any]", inner).name
        raise DefinitionError(f"A decorator hides the tool `{name}`. Write @tool above all other decorators.")


def description_of(tool: Tool[Any]) -> Description:
    """A tool's description, or an empty one if the tool's code for it fails."""
    try:
        said: Any = tool.description
    except Exception:  # noqa: BLE001 - a class may write it as a property, which can fail in any way
        return Description("")
    return said if isinstance(said, Description) else Description("")


def output_schema_of(tool: Tool[Any]) -> dict[str, Any] | None:
    """The schema of a tool's results, or None if the tool's code for it fails."""
    try:
        return tool.output_schema
    except Exception:  # as above
        logger.debug("The results of tool %s go without a schema", tool.name, exc_info=True)
        return None


def require_model(tool: str, model: type[Any]) -> None:
    """Raise `DefinitionError` unless a class can be the parameters of a tool."""
    if not hasattr(model, "model_json_schema"):
        raise DefinitionError(
            f"`{tool}`: a {model.__name__} cannot be its parameters. Make it a pydantic model: "
            f"`class {model.__name__}(BaseModel)`."
        )


def _filled(tool: str, form: Any, params: Any) -> Any:
    """A pattern with the parameters filled in. Anything but text stays as it is."""
    if not isinstance(form, str) or "{" not in form:
        return form

    def value(found: re.Match[str]) -> str:
        name = found[1]
        given: Mapping[str, Any] = cast("Any", params if isinstance(params, dict) else vars(params))
        if name not in given:
            raise DefinitionError(f"`{tool}`: `{form}` names `{{{name}}}`, and there is no such parameter.")
        said = given[name]
        return "" if said is None else str(said.value if isinstance(said, Enum) else said)

    return _BRACES.sub(value, form)


def _words(name: str, key: str, said: Any) -> frozenset[str]:
    if isinstance(said, str):
        raise DefinitionError(f"`{name}`: {key} takes several texts; write {key}=({said!r},).")
    try:
        words: frozenset[Any] = frozenset(said)
    except TypeError:
        words = frozenset({said})
    if wrong := [word for word in words if not isinstance(word, str)]:
        raise DefinitionError(f"`{name}`: {key} takes text, not {wrong[0]!r}.")
    return cast("frozenset[str]", words)


def _refuse_wrong_run(cls: type) -> None:
    """Raise `DefinitionError` unless `run` can be called with the parameters and the context."""
    run: Any = vars(cls)["run"]
    body: Any = getattr(run, "__func__", run)
    given = (None, None) if isinstance(run, staticmethod) else (None, None, None)
    if not callable(body):
        return  # refused when the tool is made
    from ferrule.core.signatures import signature_of

    try:
        signature = signature_of(body)
    except (TypeError, ValueError):
        return  # it has no signature to check
    try:
        signature.bind(*given)
    except TypeError:
        raise DefinitionError(
            f"`{cls.__name__}.run` takes {signature}, and is called with the parameters and the context. Write "
            f"`def run(self, params, context)`."
        ) from None


def _unsettled(cls: type) -> str:
    return (
        f"`{cls.__name__}` is not complete: its `__init__` does not call super().__init__(). Add that line (in a "
        f"dataclass, as `__post_init__`)."
    )


def _told(error: Exception) -> str:
    first = str(error).partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {first}." if first else f"{type(error).__name__}."


# One call of a tool


class Invocation:
    """A tool with validated parameters, ready to be authorised and run."""

    __slots__ = ("_info", "_session", "call_id", "params", "repairs", "tool")

    def __init__(self, tool: Tool[Any], params: Any, call_id: str, repairs: tuple[str, ...] = ()) -> None:
        self.tool = tool
        self.params = params
        self.call_id = call_id
        self.repairs = repairs
        self._session: Session | None = None
        self._info: CallInfo | None = None

    @property
    def session(self) -> Session | None:
        """The session it will run in, once that is known. Relative paths mean nothing without it."""
        return self._session

    @session.setter
    def session(self, session: Session) -> None:
        if session is not self._session:
            self._session, self._info = session, None

    @property
    def info(self) -> CallInfo:
        """The tool's description of this call, which is made once."""
        if self._info is None:
            self._info = self.described_now()
        return self._info

    async def ready(self, session: Session) -> None:
        """Let the tool find out what its description in a session depends on, before anything is decided."""
        self.session = session
        if self.tool.has_ready:
            await self.tool.ready(session)
            self._info = None

    def described_now(self) -> CallInfo:
        """The description as of now: a link may lead elsewhere. Raises `DefinitionError` if the tool's code fails."""
        tool, session = self.tool, self._session
        if session is None:
            session = Session()
        try:
            said = tool.describe(self.params, session)
        except ToolError as error:
            said = CallInfo(refusal=error)
        except DefinitionError:
            raise
        except Exception as error:
            raise DefinitionError(f"`{tool.name}`: `describe` raised {type(error).__name__}: {error}") from error
        return _checked(tool, said)

    @property
    def touches(self) -> Touches:
        """What running it reads and writes."""
        said = self.info.touches
        if said is None:
            return READS_ANYTHING if self.tool.read_only else WRITES_ANYTHING
        return cast("Touches", said)

    @property
    def only_reads(self) -> bool:
        """Whether it changes nothing: the tool says so about this call, and declares no writes."""
        return self.info.only_reads and not any(touch.write for touch in self.touches)

    @property
    def runs_alone(self) -> bool:
        """Whether nothing else of a batch may run beside it."""
        return self.info.runs_alone or not self.tool.concurrency_safe

    @property
    def signature(self) -> str:
        """What permission rules match: the command, the real path, …"""
        said = self.info.signature
        return self.tool.params.dump(self.params).decode() if said is None else said

    @property
    def subjects(self) -> tuple[str, ...]:
        """The signatures of a call that is about several things."""
        return self.info.each or (self.signature,)

    @property
    def always_rule(self) -> str:
        """What "always allow" would remember."""
        said = self.info.always_rule
        return self.tool.name if said is None else said

    @property
    def summary(self) -> str:
        """One short line for the user: what is about to happen."""
        said = self.info.summary
        return f"{self.tool.name} {self.signature}" if said is None else said

    def __repr__(self) -> str:
        return f"Invocation({self.tool.name!r}, {self.params!r}, call_id={self.call_id!r})"


def _checked(tool: Tool[Any], said: object) -> CallInfo:
    """A tool's description of a call; raises `DefinitionError` if it is not valid."""
    if said is None or said is NOTHING_SAID:
        return NOTHING_SAID
    if not isinstance(said, CallInfo):
        raise DefinitionError(f"`{tool.name}`: `describe` must return a CallInfo, not {type(said).__name__}.")
    for word in ("signature", "always_rule", "summary"):
        if not isinstance(value := getattr(said, word), (str, type(None))):
            raise DefinitionError(f"`{tool.name}`: `{word}` must be text, not {type(value).__name__}.")
    touches: Any = said.touches
    if touches is None:
        return said
    if isinstance(touches, Touch):
        return replace(said, touches=(touches,))
    several = isinstance(touches, Iterable) and not isinstance(touches, str)
    listed: Touches = tuple(cast("Any", touches)) if several else cast("Any", (touches,))
    if not all(isinstance(one, Touch) for one in cast("tuple[object, ...]", listed)):
        raise DefinitionError(f"`{tool.name}`: `touches` must be made with reads(…) and writes(…), not {touches!r}.")
    return said if listed is touches else replace(said, touches=listed)
