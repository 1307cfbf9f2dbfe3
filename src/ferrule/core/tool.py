"""What every tool is, however it was made."""

from __future__ import annotations

import inspect
import re
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypedDict, TypeVar, cast, get_args, get_origin

from ferrule.core.access import READS_ANYTHING, WRITES_ANYTHING, Touches
from ferrule.core.call import Invocation, new_call_id
from ferrule.core.description import Description
from ferrule.core.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ferrule.core.context import Session, ToolContext
    from ferrule.core.errors import ToolError
    from ferrule.core.params import Params
    from ferrule.core.problems import Problem

P = TypeVar("P")

_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,128}")
_NEEDS = frozenset({"tenant", "user", "role", "model"})
CACHE_SECONDS = 300.0


class Kind(StrEnum):
    """How far a tool's effects reach; it decides whether a call may run without asking."""

    READONLY = "readonly"
    WRITE = "write"
    EXECUTE = "execute"


class Style(Enum):
    """How a tool's body is written, which decides where it runs."""

    ASYNC = "async"
    SYNC = "sync"
    ASYNC_STREAM = "async stream"
    SYNC_STREAM = "sync stream"


class ToolOptions(TypedDict, total=False):
    """Everything that can be said of a tool besides its name, its parameters and its body."""

    display_name: str
    kind: Kind | str
    version: str
    category: str
    tags: Iterable[str]
    description: Description | str
    read_only: bool
    concurrency_safe: bool
    strict: bool
    enabled: bool
    dangerous: bool
    requires_permission: bool
    roles: Iterable[str]
    idempotent: bool
    timeout: float | None
    cache: bool | float
    needs: Iterable[str]
    max_result: int | None
    grace: float | None
    may_block: bool
    doing: str


OPTIONS = frozenset(ToolOptions.__annotations__)


class Tool(Generic[P]):
    """A tool: subclass it, give it a name and parameters, and write `run`.

    `class Greet(Tool[GreetParams])` takes its parameters from that pydantic model. `run` may be a plain method
    (it then runs off the event loop), `async`, or a generator of either sort, whose pieces are streamed.
    """

    name: str = ""
    display_name: str = ""
    kind: Kind = Kind.EXECUTE
    version: str = "1.0.0"
    category: str = "general"
    tags: frozenset[str] = frozenset()
    strict: bool = False
    concurrency_safe: bool = True
    enabled: bool = True
    dangerous: bool = False
    requires_permission: bool = False
    roles: frozenset[str] = frozenset()
    idempotent: bool = False
    timeout: float | None = None
    needs: frozenset[str] = frozenset()
    max_result: int | None = None
    grace: float | None = None
    """Seconds it has to stop when it is told to, where that takes longer than the limits grant: it ends processes, or
    takes back what it did."""
    may_block: bool = True
    """Whether an async tool may keep its event loop from moving. A program that serves others runs such tools on a loop
    of their own; one that never blocks runs on the program's, which is quicker."""
    doing: str = ""
    """What a person reads while it runs, with parameters in braces: ``reading `{file_path}` ``."""
    read_only: bool
    """Follows from the kind unless said."""
    cache: float
    """How many seconds a result may be used again for the same call; 0 for never."""

    style: Style
    wants_context: bool = True
    has_check: bool
    has_words: bool
    has_render: bool
    has_touches: bool
    has_signature: bool
    """Whether it has a check, words for its results (`render` for the model, or `display` too), touches, a signature of
    its own; what it lacks is not called."""
    _params: Params[P] | None = None
    _description: Description | None = None
    _expected_form: str | None = None
    _options_from_class: ClassVar[tuple[str, ...]] = tuple(OPTIONS - {"description"})

    def __init__(self, **options: Any) -> None:
        declared: dict[str, Any] = {
            key: getattr(type(self), key) for key in self._options_from_class if hasattr(type(self), key)
        }
        own = inspect.getattr_static(type(self), "description")
        if not isinstance(own, property):  # a class may simply write `description = "…"`
            declared["description"] = own
        if not any("run" in vars(owner) for owner in type(self).__mro__ if owner is not Tool):
            raise DefinitionError(f"{type(self).__name__} has no `run`. Write `def run(self, params, context)`.")
        said = {**declared, **options}
        self._settle(self.name or type(self).__name__, said, style_of(self.run))

    def _settle(self, name: str, options: Mapping[str, Any], style: Style) -> None:
        """Check what was declared and make it complete; every way of making a tool ends here."""
        if not _NAME.fullmatch(name):
            raise DefinitionError(f"{name!r} cannot name a tool: use 1 to 128 characters and no white space.")
        for key in options:
            if key not in OPTIONS:
                raise DefinitionError(f"`{name}`: there is no tool option `{key}`.")
        self.name = name
        self.style = style
        own = {member for owner in type(self).__mro__ if owner is not Tool for member in vars(owner)}
        self.has_check = "check" in own
        self.has_touches = "touches" in own or "touches_in" in own
        self.has_signature = "signature" in own
        self.has_render = "render" in own
        self.has_words = self.has_render or "display" in own
        for key in ("display_name", "version", "category", "strict", "concurrency_safe", "enabled", "dangerous",
                    "requires_permission", "idempotent", "timeout", "max_result", "grace", "may_block",
                    "doing"):  # fmt: skip
            if key in options:
                setattr(self, key, options[key])
        for key in ("tags", "roles", "needs"):
            if key in options:
                setattr(self, key, _words(name, key, options[key]))
        try:
            self.kind = Kind(options.get("kind", Kind.EXECUTE))
        except ValueError:
            kinds = ", ".join(f'"{kind.value}"' for kind in Kind)
            raise DefinitionError(f"`{name}`: kind must be one of {kinds}, not {options['kind']!r}.") from None
        self.read_only = bool(options.get("read_only", self.kind is Kind.READONLY))
        cache = options.get("cache", False)
        self.cache = CACHE_SECONDS if cache is True else float(cache)
        if self.cache and not self.read_only:
            raise DefinitionError(f"`{name}`: only a read-only tool may be cached; a {self.kind} call must run.")
        if not 0 <= self.cache < float("inf"):
            raise DefinitionError(f"`{name}`: results are kept for some seconds or 0 for never, not {self.cache!r}.")
        if unknown := self.needs - _NEEDS:
            raise DefinitionError(f"`{name}` needs {sorted(unknown)}; a context has only {sorted(_NEEDS)}.")
        if self.timeout is not None and not self.timeout > 0:
            raise DefinitionError(f"`{name}`: the time limit must be more than 0 seconds, not {self.timeout!r}.")
        if self.grace is not None and not 0 <= self.grace < float("inf"):
            raise DefinitionError(f"`{name}`: it is given some seconds to stop, or 0, not {self.grace!r}.")
        said = options.get("description")
        if said is not None:
            self._description = Description(said) if isinstance(said, str) else said
            if not isinstance(inspect.getattr_static(type(self), "description"), property):
                vars(self)["description"] = self._description
        if not self.display_name:
            self.display_name = name

    # What the tool is made of

    @property
    def params(self) -> Params[P]:
        """How arguments are read; compiled at first use."""
        if self._params is None:
            self._params = self._compile()
        return self._params

    @property
    def description(self) -> Description:
        """What it does, in layers; from the docstring unless given."""
        if self._description is None:
            self._description = self._describe()
        return self._description

    @property
    def input_schema(self) -> dict[str, Any] | bool:
        """The JSON Schema of the arguments."""
        return self.params.schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the typed result, where its type is known."""
        return None

    @property
    def expected_form(self) -> str:
        """The arguments it takes, in one line that a model can copy from."""
        if self._expected_form is None:
            from ferrule.core.wording import expected_form

            self._expected_form = expected_form(self.input_schema)
        return self._expected_form

    def _compile(self) -> Params[P]:
        from ferrule.core.params import ModelParams

        for base in _generic_bases(type(self)):
            model = get_args(base)[0]
            if isinstance(model, type):
                if not hasattr(model, "model_json_schema"):
                    break
                return cast("Params[P]", ModelParams(cast("Any", model)))
        raise DefinitionError(
            f"`{self.name}` does not say its parameters. Write `class {type(self).__name__}(Tool[ItsParams])`, where "
            f"ItsParams is a pydantic model."
        )

    def _describe(self) -> Description:
        from ferrule.core.docstring import parse_docstring

        own = type(self).__doc__ if "__doc__" in vars(type(self)) else None
        return parse_docstring(own).description

    # What a tool may say of one call; each has a safe answer of its own

    def check(self, params: P) -> Iterable[Problem]:
        """Problems that the schema cannot express; none by default."""
        return ()

    def touches(self, params: P) -> Touches:
        """What the call reads and writes. Unsaid, a read-only tool may read anything, any other write anything."""
        return READS_ANYTHING if self.read_only else WRITES_ANYTHING

    def touches_in(self, params: P, session: Session | None) -> Touches:
        """The same where the session matters, as it does for relative paths; `touches` unless said."""
        return self.touches(params)

    def runs_alone(self, params: P) -> bool:
        """Whether nothing else of a batch may run beside this call, whatever it says it touches."""
        return not self.concurrency_safe

    def only_reads(self, params: P) -> bool:
        """Whether this one call changes nothing although the tool can, as a preview does; no, unless said.

        Such a call runs as a read-only tool does, so long as it touches nothing for writing. The tool itself stays
        what its kind says: it is not shown in plan mode, and no provider is told that it is read-only.
        """
        return False

    def refusal_in(self, params: P, session: Session) -> ToolError | None:
        """Why the call would fail whoever allows it; None unless that is sure. Nobody is asked for such a call.

        This saves a question that is no use, and guards nothing: `run` must refuse by itself.
        """
        return None

    def signature(self, params: P) -> str:
        """What a permission rule is matched against; the canonical arguments unless said."""
        return self.params.dump(params).decode()

    def signature_in(self, params: P, session: Session | None) -> str:
        """The same where the session matters: a rule about files is asked about the real path, not the given one."""
        return self.signature(params)

    def abstract_rule(self, params: P) -> str:
        """What «always allow» would remember; the tool's name unless said."""
        return self.name

    def abstract_rule_in(self, params: P, session: Session | None) -> str:
        """The same where the session matters; `abstract_rule` unless said."""
        return self.abstract_rule(params)

    def summarise(self, params: P) -> str:
        """One short line for a person: what is about to happen."""
        return f"{self.display_name} {self.signature(params)}"

    def summarise_in(self, params: P, session: Session | None) -> str:
        """The same where the session matters: what a person agrees to is what a rule is asked about."""
        own = any("summarise" in vars(owner) for owner in type(self).__mro__ if owner is not Tool)
        if own:
            return self.summarise(params)
        return f"{self.display_name} {self.signature_in(params, session)}"

    def render(self, value: Any) -> str | None:
        """The model's words for a result; None leaves it to Ferrule."""
        return None

    def display(self, value: Any) -> str | None:
        """The person's short words for a result; None leaves it to Ferrule."""
        return None

    # Running

    def build(self, params: Mapping[str, Any] | str | bytes, *, call_id: str | None = None) -> Invocation:
        """Validate parameters into an invocation; raises `InvalidParams`. Running it is the runtime's work."""
        if isinstance(params, (str, bytes)):
            text: str | bytes = params
        else:
            from pydantic_core import to_json

            text = to_json(params)
        loaded = self.params.load(text)
        if problems := list(self.check(loaded)):
            from ferrule.core.problems import InvalidParams

            raise InvalidParams(problems)
        return Invocation(self, loaded, call_id or new_call_id())

    def run(self, params: P, context: ToolContext) -> Any:
        """Do the work: return a value, an `Output`, or raise `ToolError`."""
        raise NotImplementedError(f"{type(self).__name__} has no `run`.")

    def start(self, params: P, context: ToolContext | None) -> Any:
        """Begin one run: a value, a coroutine or a generator, as `style` says."""
        return self.run(params, cast("ToolContext", context))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.version} {self.kind}>"


def style_of(body: Callable[..., Any]) -> Style:
    """How a function is written; looks through partials and callable objects."""
    while hasattr(body, "func"):
        body = body.func  # pyright: ignore[reportFunctionMemberAccess, reportUnknownVariableType, reportUnknownMemberType]
    if not inspect.isroutine(body):
        body = getattr(body, "__call__", body)  # noqa: B004 - wanted for its kind, not for a test
    if inspect.iscoroutinefunction(body):
        return Style.ASYNC
    if inspect.isasyncgenfunction(body):
        return Style.ASYNC_STREAM
    if inspect.isgeneratorfunction(body):
        return Style.SYNC_STREAM
    return Style.SYNC


def _words(name: str, key: str, said: Any) -> frozenset[str]:
    if isinstance(said, str):
        raise DefinitionError(f"`{name}`: {key} takes several words; write {key}=({said!r},).")
    return frozenset(said)


def _generic_bases(cls: type) -> Iterable[Any]:
    for owner in cls.__mro__:
        for base in vars(owner).get("__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, Tool):
                yield base
