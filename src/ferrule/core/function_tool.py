"""`@tool`: a typed function is a tool."""

from __future__ import annotations

import inspect
from functools import lru_cache, partial
from types import GenericAlias
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from ferrule.core.context import ToolContext
from ferrule.core.errors import DefinitionError
from ferrule.core.hooks import HookedOptions, HookedTool
from ferrule.core.tool import Style, style_of
from ferrule.core.typed_dicts import understood

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from ferrule.core.description import Description
    from ferrule.core.docstring import Docstring
    from ferrule.core.params import Params

_FORBIDDEN_CONTAINERS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class FunctionTool(HookedTool):
    """A tool made from a function; it can still be called as one."""

    def __init__(
        self, function: Callable[..., Any], *, name: str | None = None, **options: Unpack[HookedOptions]
    ) -> None:
        if not callable(function):
            raise DefinitionError(f"@tool goes on a function, not on {function!r}.")
        self.function = function
        self._output_schema: dict[str, Any] | bool | None = False
        self._context_name: str | None = None
        self._docstring: Docstring | None = None
        inner = _without_partials(function)
        chosen = name or getattr(inner, "__name__", type(inner).__name__)
        self._settle_with_hooks(chosen, options, style_of(function))
        if inner is not function or hasattr(function, "__wrapped__"):
            function = written(function)
        code = getattr(function, "__code__", None)
        if code is not None:
            _refuse_unnamed(chosen, code, function)
            # A function without any annotation that could be the context is never handed one.
            self.wants_context = _may_want_context(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool:
        if instance is None:
            return self
        raise DefinitionError(
            f"`{self.name}` is a method; @tool cannot know its object. Write a Tool subclass, or make the tool from "
            f"the bound method: tool(obj.{self.name})."
        )

    def _compile(self) -> Params[Any]:
        from ferrule.core.function_params import compile_function

        compiled = compile_function(self.name, self.function, self._read_docstring().params)
        self._context_name = compiled.context_name
        self.wants_context = compiled.context_name is not None
        return compiled.params

    def _describe(self) -> Description:
        return self._read_docstring().description

    def _read_docstring(self) -> Docstring:
        if self._docstring is None:
            from ferrule.core.docstring import parse_docstring

            self._docstring = parse_docstring(doc_of(self.function))
        return self._docstring

    @property
    def output_schema(self) -> dict[str, Any] | None:
        if isinstance(self._output_schema, bool):
            from ferrule.core.function_params import output_schema

            streams = self.style in (Style.ASYNC_STREAM, Style.SYNC_STREAM)
            self._output_schema = None if streams else output_schema(self.function)
        return self._output_schema

    def start(self, params: Any, context: ToolContext | None) -> Any:
        if self._context_name is None:
            return self.function(**params.__dict__)
        return self.function(**params.__dict__, **{self._context_name: context})


class _ToolKeywords(HookedOptions, total=False):
    name: str


@overload
def tool(function: Callable[..., Any], /, **options: Unpack[_ToolKeywords]) -> FunctionTool: ...
@overload
def tool(**options: Unpack[_ToolKeywords]) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Make a tool from a typed function: `@tool`, `@tool(kind="readonly")` or `tool(function)`.

    The docstring is the model's description and describes the parameters (or `Annotated[int, Field(description=…)]`
    does). A sync function runs off the event loop; a generator's pieces are streamed. A parameter annotated with
    `ToolContext` is filled in by Ferrule. Without a `kind` a tool counts as `execute` and asks before it runs.
    """
    if function is not None:
        return FunctionTool(function, **options)

    def decorate(wrapped: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(wrapped, **options)

    return decorate


def _refuse_unnamed(name: str, code: Any, function: Callable[..., Any]) -> None:
    """A model names its arguments, so a tool's parameters need names and types."""
    if code.co_flags & _FORBIDDEN_CONTAINERS:
        raise DefinitionError(
            f"`{name}` takes *args or **kwargs, which have no names to show a model. Name its parameters, or make "
            f"the tool from a JSON Schema with raw_tool()."
        )
    if code.co_posonlyargcount:
        raise DefinitionError(f"`{name}` has positional-only parameters; a model passes arguments by name.")
    annotations = getattr(function, "__annotations__", {})
    first = 1 if inspect.ismethod(function) else 0
    names = code.co_varnames[first : code.co_argcount + code.co_kwonlyargcount]
    if untyped := [one for one in names if one not in annotations]:
        listed = ", ".join(f"`{one}`" for one in untyped)
        raise DefinitionError(f"`{name}`: {listed} has no type. Write one, e.g. `{untyped[0]}: str`.")


def _may_want_context(function: Callable[..., Any]) -> bool:
    return any(
        note is ToolContext or isinstance(note, str) for note in getattr(function, "__annotations__", {}).values()
    )


def _without_partials(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    return function


def doc_of(function: Callable[..., Any]) -> str | None:
    """The docstring of the function, or of the class of a callable object."""
    return inspect.getdoc(_without_partials(function))


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function somebody wrote, inside partials, decorators that say what they wrap, and callable objects."""
    function = _without_partials(function)
    while hasattr(function, "__wrapped__"):
        function = _without_partials(cast("Any", function).__wrapped__)
    return function if inspect.isroutine(function) else type(function).__call__


def hints_of(function: Callable[..., Any], *, returned: bool) -> dict[str, Any]:
    """The annotations as types, `Annotated` kept: of the parameters, or of what is returned.

    Apart, because a return type is often imported for type checkers alone, and parameters can do without it.
    """
    target = written(function)
    notes = {name: note for name, note in target.__annotations__.items() if (name == "return") is returned}
    scope = getattr(target, "__globals__", {})
    hints = _known_hints(notes, scope)
    if hints is None:

        def bearer() -> None: ...

        bearer.__annotations__ = notes
        hints = get_type_hints(bearer, globalns=scope, include_extras=True)
    return {name: understood(hint) for name, hint in hints.items()}


def _known_hints(notes: dict[str, Any], scope: dict[str, Any]) -> dict[str, Any] | None:
    """The annotations as `get_type_hints` gives them, in a fraction of its time; None where one is more than a type."""
    hints: dict[str, Any] = {}
    for name, note in notes.items():
        hint = note
        if isinstance(note, str):
            try:
                hint = eval(_code(note), scope)  # noqa: S307 - the author's own annotation, as `get_type_hints` does
            except Exception:  # noqa: BLE001 - `get_type_hints` will raise the same, and is asked then
                return None
        if not _is_whole(hint):
            return None
        hints[name] = hint
    return hints


@lru_cache(maxsize=4096)
def _code(note: str) -> CodeType:
    return compile(note, "<annotation>", "eval")


def _is_whole(hint: Any) -> bool:
    """Whether a type has no name in it that must still be looked up."""
    if isinstance(hint, type):
        return not isinstance(hint, GenericAlias)
    origin = get_origin(hint)
    if origin is Literal:
        return True
    members = get_args(hint)
    if origin is Annotated:
        return _is_whole(members[0])
    return bool(members) and all(member is Ellipsis or _is_whole(member) for member in members)
