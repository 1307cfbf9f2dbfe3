"""Tools of typed functions, of methods, and of a schema with a function: `tool`, `raw_tool`, `tools_of`."""

from __future__ import annotations

import inspect
from enum import Enum
from functools import partial
from threading import RLock
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypeVar, Unpack, cast, overload
from weakref import WeakValueDictionary

from ferrule.core.errors import DefinitionError
from ferrule.core.signatures import (
    annotations_of,
    doc_of,
    hints_of,
    may_be_context,
    refuse_second_context,
    shown_parameters,
    signature_of,
    surroundings,
    wanted_deps_of,
    without_partials,
    written,
)
from ferrule.core.tool import Style, Tool, ToolOptions, refuse_hidden, require_model, style_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import ParamSpec
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ferrule.core.context import ToolContext
    from ferrule.core.description import Description, Docstring
    from ferrule.core.function_params import Compiled
    from ferrule.core.params import Params
    from ferrule.core.schema_params import SchemaParams

    P = ParamSpec("P", default=...)
    R = TypeVarWithDefault("R", default=Any, covariant=True)
    Handler = Callable[[Any], Any] | Callable[[Any, ToolContext[Any]], Any]

    class Decorator(Protocol):
        def __call__(self, function: Callable[P, R], /) -> FunctionTool[P, R]: ...

else:
    from typing import ParamSpec

    P, R = ParamSpec("P"), TypeVar("R", covariant=True)

_Q = ParamSpec("_Q")
_S = TypeVar("_S")

_OF_FUNCTIONS = ("__name__", "__qualname__", "__code__", "__defaults__", "__kwdefaults__", "__globals__")
Schema = dict[str, Any] | bool

_FORBIDDEN_CONTAINERS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class _Binding(Enum):
    """What a function's first parameter stands for."""

    NONE = "an ordinary parameter"
    LIKELY = "the object, unless a decorator above @tool makes it a static method"
    OBJECT = "the object"
    CLASS = "the class"


class FunctionTool(Tool[Any], Generic[P, R]):
    """A tool made from a function; it can still be called as one, with the parameters `P` and what it returns, `R`.

    On a method it is that of every object: `bot.greet` is the tool of `bot`, one and the same each time.
    """

    def __init__(self, function: Callable[P, R], *, name: str | None = None, **options: Unpack[ToolOptions]) -> None:
        given: Any = function
        if isinstance(given, (classmethod, staticmethod)):
            function = cast("Any", given).__func__
        _refuse_no_function(function)
        self.function = function
        self._compiled: Compiled | None = None
        self._context_name: str | None = None
        self._docstring: Docstring | None = None
        self._unbound: FunctionTool | None = None
        self._bound: WeakValueDictionary[int, FunctionTool] | None = None
        chosen = name or _name_of(function)
        self._settle(chosen, options, style_of(function))
        target = written(function)
        self.__doc__, self.__module__ = target.__doc__, getattr(target, "__module__", __name__)
        self.__annotations__ = annotations_of(target)
        in_class, self._local_names = surroundings(target)
        if isinstance(given, classmethod):
            self._binding = _Binding.CLASS
        elif in_class and not isinstance(given, staticmethod):
            self._binding = _Binding.LIKELY
        else:
            self._binding = _Binding.NONE
        if getattr(function, "__isabstractmethod__", False):
            self.__isabstractmethod__ = True
        shown = _refuse_unnamed(chosen, function, target, is_method=self._binding is not _Binding.NONE)
        # A function without any annotation that could be the context is never handed one.
        may_be = [one for one in shown if may_be_context(target, one, self._local_names)]
        self.wants_context = bool(may_be)
        for one in shown:
            if one[0] == "_" and one not in may_be:
                raise DefinitionError(f"`{chosen}`: `{one}` begins with `_`, as no parameter of a tool can. Rename it.")
        if len(may_be) > 1:
            refuse_second_context(chosen, function, may_be, self._local_names)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """What programs ask of a function: its name, what `inspect.signature` gives, and whether it is async."""
        if name in _OF_FUNCTIONS:
            return getattr(written(self.function), name)
        if name == "__signature__":
            return signature_of(self.function)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    # As a method

    def __set_name__(self, owner: type, name: str) -> None:
        if self._binding is not _Binding.LIKELY:
            return
        self._binding = _Binding.OBJECT
        self._local_names.setdefault(owner.__name__, owner)
        code = getattr(written(self.function), "__code__", None)
        if code is not None and not code.co_argcount:
            raise DefinitionError(
                f"`{owner.__name__}.{name}` has no `self`. Add it, or write @staticmethod between @tool and the method."
            )

    @overload
    def __get__(self: Callable[Concatenate[_S, _Q], R], instance: object, owner: _S) -> FunctionTool[_Q, R]: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None) -> FunctionTool[P, R]: ...
    @overload
    def __get__(self: Callable[Concatenate[_S, _Q], R], instance: _S, owner: Any = None) -> FunctionTool[_Q, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[P, R]: ...
    def __get__(self: Any, instance: object, owner: Any = None) -> Any:
        if self._binding is _Binding.NONE:
            return self
        if self._binding is _Binding.CLASS:
            return self.bound_to(owner if owner is not None else type(instance))
        return self if instance is None else self.bound_to(instance)

    def bound_to(self, owner: object) -> FunctionTool[..., R]:
        """The tool of one object. It is kept in the object, so that it is the same each time and goes with it."""
        if self._binding is _Binding.LIKELY:  # @classmethod above @tool, up to Python 3.12
            self._binding = _Binding.OBJECT
        with _BINDING:
            kept = _kept_in(owner)
            if kept is None:  # nothing can be kept in it: then the tool lives as long as somebody holds it
                kept = self._bound = WeakValueDictionary() if self._bound is None else self._bound
            key = id(self) if isinstance(kept, dict) else id(owner)
            bound = kept.get(key)
            if bound is None:
                bound = cast("FunctionTool", object.__new__(type(self)))
                vars(bound).update(vars(self), function=MethodType(self.function, owner), _unbound=self)
                vars(bound).update(_binding=_Binding.NONE, _bound=None)
                kept[key] = bound
            return bound

    @property
    def is_unbound(self) -> bool:
        """Whether it is a method that still lacks its object."""
        return self._binding in (_Binding.OBJECT, _Binding.CLASS)

    def require_ready(self) -> None:
        super().require_ready()
        if self.is_unbound:
            raise DefinitionError(
                f"`{self.name}` is a method and needs its object: pass `obj.{self.name}`, or `tools_of(obj)` for all "
                f"tools of an object."
            )

    # What it is made of

    def _compile(self) -> Params[Any]:
        self.require_ready()
        compiled = self.compiled()
        self._context_name = compiled.context_name
        self.wants_context = compiled.context_name is not None
        self.deps_type = compiled.wanted_deps
        return compiled.params

    def compiled(self) -> Compiled:
        """What the signature comes to, without the object; all objects of a class share it."""
        if self._unbound is not None:
            return self._unbound.compiled()
        if self._compiled is None:
            from ferrule.core.function_params import compile_function

            if (
                self._binding is _Binding.LIKELY
            ):  # a static method after all: its first parameter is one like the others
                _refuse_unnamed(self.name, self.function, written(self.function), is_method=False)
            function = MethodType(self.function, self) if self.is_unbound else self.function
            self._compiled = compile_function(self.name, function, self._local_names, self._read_docstring().params)
        return self._compiled

    def _describe(self) -> Description:
        return self._read_docstring().description

    def _read_docstring(self) -> Docstring:
        if self._docstring is None:
            from ferrule.core.description import parse_docstring

            self._docstring = parse_docstring(doc_of((self._unbound or self).function))
        return self._docstring

    def _returned(self) -> Any:
        return hints_of(self.function, returned=True, local_names=self._local_names).get("return", Any)

    def start(self, params: Any, context: ToolContext | None) -> Any:
        function: Callable[..., Any] = self.function
        if self._context_name is None:
            return function(**params.__dict__)
        return function(**params.__dict__, **{self._context_name: context})


class _ToolKeywords(ToolOptions, total=False):
    name: str


_M = TypeVar("_M")


@overload
def tool(function: Callable[P, R], /, **options: Unpack[_ToolKeywords]) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[_ToolKeywords]) -> Decorator: ...
@overload
def tool(
    *,
    schema: type[_M],
    execute: Callable[[_M], Any] | Callable[[_M, ToolContext], Any],
    **options: Unpack[_ToolKeywords],
) -> RawTool: ...
@overload
def tool(*, schema: Schema, execute: Handler, **options: Unpack[_ToolKeywords]) -> RawTool: ...
def tool(function: Any = None, /, *, schema: Any = None, execute: Any = None, **options: Any) -> Any:
    """Make a tool from a typed function: `@tool`, `@tool(kind="readonly")` or `tool(function)`.

    The docstring is the model's description and describes the parameters (or `Annotated[int, Field(description=…)]`
    does). A sync function runs off the event loop; a generator's pieces are streamed. A parameter annotated with
    `ToolContext` is filled in by Ferrule. Without a `kind` a tool runs in a `Runtime` that has no policy, and counts as
    `execute` everywhere else.
    On a method, `obj.method` is the tool, and `tools_of(obj)` gives all of them.

    `tool(schema=Model, execute=run)` takes the parameters from a pydantic model or a JSON Schema, and calls
    `run(params)` or `run(params, context)`.
    """
    if schema is not None:
        if function is not None or execute is None:
            raise DefinitionError("A schema comes with the function that runs: tool(schema=Model, execute=run).")
        return RawTool(options.pop("name", None) or _name_of(execute), schema, execute, **options)
    if execute is not None:
        raise DefinitionError("`execute` comes with its schema: tool(schema=Model, execute=run). Or write tool(run).")
    if function is not None:
        return FunctionTool(function, **options)

    def decorate(wrapped: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(wrapped, **options)

    return decorate


def tools_of(owner: object) -> list[Tool[Any]]:
    """Every tool of an object: its decorated methods, inherited ones too, in the order they were defined.

    An override is a tool only if it is decorated too. Of a class, only the static and class methods can be had.
    """
    cls = owner if isinstance(owner, type) else type(owner)
    held: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        held.update(vars(base))
    found: dict[int, Tool[Any]] = {}
    for name, value in held.items():
        inner = cast("Any", value).__func__ if isinstance(value, (classmethod, staticmethod)) else value
        refuse_hidden(inner)
        if not isinstance(inner, Tool):
            continue
        one: object = getattr(owner, name)
        if isinstance(one, MethodType) and isinstance(inner, FunctionTool):  # @classmethod above @tool
            one = cast("FunctionTool", inner).bound_to(one.__self__)
        if isinstance(one, FunctionTool) and one.is_unbound:
            raise DefinitionError(f"`{cls.__name__}.{name}` needs an object: write tools_of({cls.__name__}(…)).")
        if isinstance(one, Tool):
            found[id(cast("object", one))] = cast("Tool[Any]", one)
    return list(found.values())


# The tools of objects

_BINDING = RLock()
_KEPT = "_ferrule_tools"


class _OwnTools:
    """The tools of one object, kept in it. A copy of the object starts without."""

    __slots__ = ("owner", "tools")

    def __init__(self, owner: object = None) -> None:
        self.owner = owner
        self.tools: dict[int, FunctionTool] = {}

    def __reduce__(self) -> tuple[type[_OwnTools], tuple[()]]:
        return _OwnTools, ()


def _kept_in(owner: object) -> dict[int, FunctionTool] | None:
    """The tools kept in an object, by the id of what they were made of; None where there is no place in it."""
    room: Any = getattr(owner, "__dict__", None)
    kept: Any = room.get(_KEPT) if room is not None else None
    if not isinstance(kept, _OwnTools) or kept.owner is not owner:
        kept = _OwnTools(owner)
        if isinstance(owner, type):
            type.__setattr__(owner, _KEPT, kept)
        elif isinstance(room, dict):
            room[_KEPT] = kept
        else:
            return None
    return kept.tools


# What can be a tool


def _refuse_no_function(function: Any) -> None:
    """Words for what people decorate or hand over, and that is no function."""
    function = without_partials(function)
    if isinstance(function, Tool):
        name = cast("Tool[Any]", function).name
        raise DefinitionError(f"`{name}` is a tool already. Use it as it is, or say what you want of it in its @tool.")
    if isinstance(function, type):
        name = function.__name__
        if issubclass(function, Tool):
            raise DefinitionError(f"`{name}` is a class of tools already: use {name}() without @tool.")
        raise DefinitionError(
            f"`{name}` is a class, and @tool goes on a function. Write a function that makes one, or decorate the "
            f"methods of the class and use tools_of({name}(…))."
        )
    if not callable(function):
        raise DefinitionError(f"@tool goes on a function, not on {function!r}.")
    if hasattr(function, "cache_info") and style_of(getattr(function, "__wrapped__", function)) is not Style.SYNC:
        raise DefinitionError(
            f"`{_name_of(function)}`: lru_cache would give the same coroutine or generator twice, and each can be used "
            f'only once. Leave it out, or use @tool(kind="readonly", cache=True).'
        )
    if hasattr(function, "dispatch") and hasattr(function, "registry"):
        raise DefinitionError(
            f"`{_name_of(function)}` takes its first argument by position (singledispatch). Decorate a function that "
            f"calls it."
        )
    if getattr(function, "__globals__", {}).get("__name__") == "contextlib":
        raise DefinitionError(
            f"`{_name_of(function)}` is a context manager, whose value is for `with`. Decorate a function that uses it."
        )


def _name_of(function: Callable[..., Any]) -> str:
    inner = without_partials(function)
    name = getattr(inner, "__name__", type(inner).__name__)
    if name == "<lambda>":
        raise DefinitionError('A lambda has no name to call it by. Pass one: tool(…, name="add_numbers").')
    return name


def _refuse_unnamed(
    name: str, function: Callable[..., Any], target: Callable[..., Any], *, is_method: bool
) -> Sequence[str]:
    """A model names its arguments, so a tool's parameters need names and types; gives the names."""
    code: Any = getattr(target, "__code__", None)
    if isinstance(function, (FunctionType, MethodType)) and code is not None and not hasattr(function, "__signature__"):
        has_containers, has_positional = code.co_flags & _FORBIDDEN_CONTAINERS, code.co_posonlyargcount
        first = 1 if is_method or isinstance(function, MethodType) else 0
        names = code.co_varnames[first : code.co_argcount + code.co_kwonlyargcount]
        annotations = annotations_of(target)
        untyped = [one for one in names if one not in annotations]
    else:
        try:
            listed = shown_parameters(function)[1 if is_method else 0 :]
        except (TypeError, ValueError):
            given = isinstance(function, partial) and code is not None
            wrong = f"`{name}`: the partial gives it arguments that it does not take."
            raise DefinitionError(wrong if given else _built_in(name)) from None
        has_containers = any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in listed)
        has_positional = any(one.kind is one.POSITIONAL_ONLY for one in listed)
        names = [one.name for one in listed]
        untyped = [one.name for one in listed if one.annotation is one.empty]
        if code is None and names:
            raise DefinitionError(_built_in(name))
    if has_containers:
        raise DefinitionError(
            f"`{name}` takes *args or **kwargs, which have no names to show a model. Name its parameters, or make "
            f"the tool from a JSON Schema with raw_tool()."
        )
    if has_positional:
        raise DefinitionError(f"`{name}` has positional-only parameters; a model passes arguments by name.")
    if untyped:
        raise DefinitionError(_untyped_words(name, target, untyped))
    return names


def _built_in(name: str) -> str:
    return (
        f"`{name}` is not written in Python, so its parameters have no types. Wrap it in a function that has: "
        f"`def call_{name}(value: str) -> str`."
    )


def _untyped_words(name: str, target: Any, untyped: Sequence[str]) -> str:
    listed = ", ".join(f"`{one}`" for one in untyped)
    if target.__name__ == "<lambda>":
        return f"`{name}` is a lambda, which has no place for the type of {listed}. Write a function with `def`."
    if untyped[0] in ("self", "cls"):
        return (
            f"`{name}` is a method without its object. Use the object's, tool(obj.{name}), or put @tool on the method "
            f"in its class."
        )
    example = "ToolContext" if untyped[0] in ("context", "ctx") else "str"
    have = "has" if len(untyped) == 1 else "have"
    other = f" Or name the model of its arguments: tool(schema=…, execute={name})." if "params" in untyped else ""
    return f"`{name}`: {listed} {have} no type. Write one, e.g. `{untyped[0]}: {example}`.{other}"


# `raw_tool`: a schema and a handler are a tool, as for tools that are known only at run time.


class RawTool(Tool[Any]):
    """A tool whose parameters are a JSON Schema or a pydantic model; its handler gets plain values or the model."""

    def __init__(
        self,
        name: str,
        schema: Schema | type[Any],
        handler: Handler,
        *,
        resources: Mapping[str, Schema] | None = None,
        output_schema: dict[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        if not callable(handler):
            raise DefinitionError(f"`{name}`: the handler must be a function, not {type(handler).__name__}.")
        self.handler: Callable[..., Any] = handler
        self._settle(name, options, style_of(handler))
        self.wants_context = _takes_context(name, handler)
        self.deps_type = wanted_deps_of(handler)
        self._model = schema if isinstance(schema, type) else None
        self._schema_params: SchemaParams | None = None
        if self._model is not None:
            require_model(name, self._model)
            self._output_schema = False if output_schema is None else output_schema
        else:
            from ferrule.core.schema_params import SchemaParams

            self._output_schema = output_schema
            self._schema_params = SchemaParams(name, cast("Schema", schema), resources)

    def compile(self) -> None:
        """Compile now what the first call would: raises `DefinitionError` when the schema cannot work."""
        if self._schema_params is not None:
            self._schema_params.compile()
        else:
            _compiled = self.params

    def _compile(self) -> Params[Any]:
        if self._schema_params is not None:
            return self._schema_params
        from ferrule.core.params import ModelParams

        return ModelParams(cast("Any", self._model))

    def _try_out(self) -> None:
        super()._try_out()
        if self._schema_params is not None:
            self._schema_params.require_schema()

    def _returned(self) -> Any:
        """What the handler of a model says that it returns; with a JSON Schema, `output_schema` alone counts."""
        return Any if self._model is None else hints_of(self.handler, returned=True).get("return", Any)

    def _describe(self) -> Description:
        from ferrule.core.description import parse_docstring

        return parse_docstring(inspect.getdoc(self.handler) if inspect.isroutine(self.handler) else None).description

    def start(self, params: Any, context: ToolContext | None) -> Any:
        return self.handler(params, context) if self.wants_context else self.handler(params)


def raw_tool(
    name: str,
    schema: Schema | type[Any],
    handler: Handler,
    *,
    resources: Mapping[str, Schema] | None = None,
    output_schema: dict[str, Any] | None = None,
    **options: Unpack[ToolOptions],
) -> RawTool:
    """Make a tool from a JSON Schema (Draft 2020-12 unless its `$schema` says otherwise), or a pydantic model, and a
    handler.

    The handler is called with the arguments, and with the context too if it takes a second parameter; it may
    be sync, async or a generator. Other documents that the schema refers to are handed over in `resources`,
    by address: nothing is ever fetched. The schema is compiled at the first call, or by `compile`.
    """
    return RawTool(name, schema, handler, resources=resources, output_schema=output_schema, **options)


def _takes_context(name: str, handler: Callable[..., Any]) -> bool:
    """Whether the handler wants the context: it has a second parameter that can be passed by position."""
    try:
        parameters = list(signature_of(handler).parameters.values())
    except (TypeError, ValueError):
        return False
    by_position = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    required = [one for one in by_position if one.default is one.empty]
    forced = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    open_ended = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if len(required) > 2 or forced or not (by_position or open_ended):
        raise DefinitionError(
            f"`{name}`: its handler must be callable as handler(arguments) or handler(arguments, context)."
        )
    return len(by_position) > 1
