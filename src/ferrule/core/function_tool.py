"""`@tool`: a typed function is a tool, and a decorated method is a tool of its object."""

from __future__ import annotations

import inspect
import re
import sys
from enum import Enum
from functools import lru_cache, partial
from threading import RLock
from types import FunctionType, GenericAlias, MethodType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    Literal,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)
from weakref import WeakValueDictionary

from ferrule.core.context import ToolContext
from ferrule.core.errors import DefinitionError
from ferrule.core.tool import Style, Tool, ToolOptions, refuse_hidden, style_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import CodeType

    from ferrule.core.docstring import Docstring
    from ferrule.core.function_params import Compiled
    from ferrule.core.params import Params
    from ferrule.core.tool import Description


_FORBIDDEN_CONTAINERS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_IDENTIFIER = re.compile(r"[^\W\d]\w*")


class _Binding(Enum):
    """What a function's first parameter stands for."""

    NONE = "an ordinary parameter"
    LIKELY = "the object, unless a decorator above @tool makes it a static method"
    OBJECT = "the object"
    CLASS = "the class"


class FunctionTool(Tool[Any]):
    """A tool made from a function; it can still be called as one.

    On a method it is that of every object: `bot.greet` is the tool of `bot`, one and the same each time.
    """

    def __init__(
        self, function: Callable[..., Any], *, name: str | None = None, **options: Unpack[ToolOptions]
    ) -> None:
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
        in_class, self._local_names = _surroundings(target)
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
        may_be = [one for one in shown if _may_be_context(target, one, self._local_names)]
        self.wants_context = bool(may_be)
        for one in shown:
            if one[0] == "_" and one not in may_be:
                raise DefinitionError(f"`{chosen}`: `{one}` begins with `_`, as no parameter of a tool can. Rename it.")
        if len(may_be) > 1:
            _refuse_second_context(chosen, function, may_be, self._local_names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """What programs ask of a function: its name, and what `inspect.signature` gives."""
        if name in ("__name__", "__qualname__"):
            return getattr(written(self.function), name)
        if name == "__signature__":
            return inspect.signature(self.function)
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

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool:
        if self._binding is _Binding.NONE:
            return self
        if self._binding is _Binding.CLASS:
            return self.bound_to(owner if owner is not None else type(instance))
        return self if instance is None else self.bound_to(instance)

    def bound_to(self, owner: object) -> FunctionTool:
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
            from ferrule.core.docstring import parse_docstring

            self._docstring = parse_docstring(doc_of((self._unbound or self).function))
        return self._docstring

    def _returned(self) -> Any:
        return hints_of(self.function, returned=True, local_names=self._local_names).get("return", Any)

    def start(self, params: Any, context: ToolContext | None) -> Any:
        if self._context_name is None:
            return self.function(**params.__dict__)
        return self.function(**params.__dict__, **{self._context_name: context})


class _ToolKeywords(ToolOptions, total=False):
    name: str


@overload
def tool(function: Callable[..., Any], /, **options: Unpack[_ToolKeywords]) -> FunctionTool: ...
@overload
def tool(**options: Unpack[_ToolKeywords]) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Make a tool from a typed function: `@tool`, `@tool(kind="readonly")` or `tool(function)`.

    The docstring is the model's description and describes the parameters (or `Annotated[int, Field(description=…)]`
    does). A sync function runs off the event loop; a generator's pieces are streamed. A parameter annotated with
    `ToolContext` is filled in by Ferrule. Without a `kind` a tool runs in a `Runtime` that has no policy, and counts as
    `execute` everywhere else.
    On a method, `obj.method` is the tool, and `tools_of(obj)` gives all of them.
    """
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
        one: Any = getattr(owner, name)
        if isinstance(one, MethodType) and isinstance(one.__func__, FunctionTool):  # @classmethod above @tool
            one = one.__func__.bound_to(one.__self__)
        if isinstance(one, FunctionTool) and one.is_unbound:
            raise DefinitionError(f"`{cls.__name__}.{name}` needs an object: write tools_of({cls.__name__}(…)).")
        if isinstance(one, Tool):
            found[id(cast("Any", one))] = cast("Tool[Any]", one)
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
    function = _without_partials(function)
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
    inner = _without_partials(function)
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
        annotations = getattr(target, "__annotations__", {})
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
    return f"`{name}`: {listed} {have} no type. Write one, e.g. `{untyped[0]}: {example}`."


# What a function says of itself


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


def shown_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What a model may give: what a partial has bound is the program's own, and may be a secret."""
    bound: set[str] = set()
    inner = function
    while isinstance(inner, partial):
        bound |= cast("partial[Any]", inner).keywords.keys()
        inner = cast("partial[Any]", inner).func
    return [one for one in inspect.signature(function).parameters.values() if one.name not in bound]


def hints_of(
    function: Callable[..., Any], *, returned: bool, local_names: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The annotations as types, `Annotated` kept: of the parameters, or of what is returned.

    Apart, because a return type is often imported for type checkers alone, and parameters can do without it.
    """
    target: Any = written(function)
    annotations: dict[str, Any] = getattr(target, "__annotations__", None) or {}
    notes = {name: note for name, note in annotations.items() if (name == "return") is returned}
    scope: dict[str, Any] = getattr(target, "__globals__", {})
    names = {**_closed_over(target), **(local_names or {})}
    hints = _known_hints(notes, scope, names)
    if hints is None:

        def bearer() -> None: ...

        bearer.__annotations__ = notes
        hints = get_type_hints(bearer, scope, names, include_extras=True)
    return {name: understood(hint) for name, hint in hints.items()}


def _known_hints(notes: Mapping[str, Any], scope: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any] | None:
    """The annotations as `get_type_hints` gives them, in a fraction of its time; None where one is more than a type."""
    hints: dict[str, Any] = {}
    for name, note in notes.items():
        hint = note
        if isinstance(note, str):
            try:
                hint = eval(_code(note), scope, names)  # noqa: S307 - the author's own annotation, as `get_type_hints` does
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


def _closed_over(target: Any) -> dict[str, Any]:
    """What a function uses of the scopes around it, and its own type parameters."""
    names: dict[str, Any] = {one.__name__: one for one in getattr(target, "__type_params__", ())}
    cells: Sequence[Any] = getattr(target, "__closure__", None) or ()
    for name, cell in zip(target.__code__.co_freevars if cells else (), cells, strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    return names


def _class_around(target: Any) -> str:
    """The qualified name of the class in whose body a function was written; empty where there was none."""
    around = getattr(target, "__qualname__", "").rpartition(".")[0]
    return "" if around.endswith("<locals>") else around


def _surroundings(target: Any) -> tuple[bool, dict[str, Any]]:
    """Whether a function is just being defined in a class, and what its annotations name of the scopes around it.

    Under `from __future__ import annotations` a type is only a name, and one that is local to a function is gone when
    the parameters are compiled. So the named values are kept, and never a frame.
    """
    around = getattr(target, "__qualname__", "").rpartition(".")[0]
    found: dict[str, Any] = {}
    if not around:
        return False, found
    cls = _class_around(target)
    wanted = {name for note in getattr(target, "__annotations__", {}).values() for name in _names_in(note)}
    if not wanted and not cls:
        return False, found
    in_class = False
    outermost = around.partition(".")[0]
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if f"{around}.".startswith(f"{code.co_qualname}.") and frame.f_globals is getattr(target, "__globals__", None):
            is_class = not code.co_flags & inspect.CO_OPTIMIZED
            in_class = in_class or (is_class and code.co_qualname == cls)
            here = wanted if is_class else wanted & {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
            if here:
                names = frame.f_locals
                found = {name: names[name] for name in here if name in names} | found
            if code.co_qualname == outermost:
                break
        frame = frame.f_back
    return in_class, found


def _names_in(note: Any) -> Iterator[str]:
    """The names in an annotation that are not looked up yet."""
    if isinstance(note, (str, ForwardRef)):
        yield from _IDENTIFIER.findall(note if isinstance(note, str) else note.__forward_arg__)
    elif not isinstance(note, type):
        for part in get_args(note):
            yield from _names_in(part)


# The context


def is_context(annotation: Any) -> bool:
    """Whether a parameter of this type is filled in with the context: the type itself, or it or nothing."""
    if annotation is ToolContext:
        return True
    return get_origin(annotation) in (Union, UnionType, Annotated) and any(map(is_context, get_args(annotation)))


def _may_be_context(target: Any, parameter: str, local_names: Mapping[str, Any]) -> bool:
    note = getattr(target, "__annotations__", {}).get(parameter)
    if not isinstance(note, str):
        return is_context(note)
    names = _IDENTIFIER.findall(note)
    known = getattr(target, "__globals__", {})
    return "ToolContext" in names or any(is_context(local_names.get(one, known.get(one))) for one in names)


def _refuse_second_context(
    name: str, function: Callable[..., Any], may_be: Sequence[str], local_names: Mapping[str, Any]
) -> None:
    try:
        hints = hints_of(function, returned=False, local_names=local_names)
    except NameError:
        return  # it is known when the parameters are compiled, and refused then
    contexts = [one for one in may_be if is_context(hints.get(one))]
    if len(contexts) > 1:
        raise DefinitionError(two_contexts(name, contexts))


def two_contexts(name: str, contexts: Sequence[str]) -> str:
    listed = " and ".join(f"`{one}`" for one in contexts)
    return f"`{name}`: {listed} are both a ToolContext, and there is one. Leave one out."


# Lets people write `typing.TypedDict` on Python 3.11, where pydantic takes only the one of typing_extensions.


def understood(annotation: Any, seen: dict[Any, Any] | None = None) -> Any:
    """The same type in a form pydantic takes; nothing changes from Python 3.12 on."""
    if sys.version_info >= (3, 12):
        return annotation
    seen = {} if seen is None else seen
    if is_typeddict(annotation) and type(annotation).__module__ == "typing":
        return _rebuilt(annotation, seen)
    arguments = get_args(annotation)
    if not arguments:
        return annotation
    origin = get_origin(annotation)
    if origin is Annotated:
        inner = understood(arguments[0], seen)
        return annotation if inner is arguments[0] else Annotated[(inner, *arguments[1:])]
    changed = tuple(understood(one, seen) if isinstance(one, type) or get_args(one) else one for one in arguments)
    if changed == arguments:
        return annotation
    if origin is UnionType:
        return Union[changed]  # noqa: UP007 - built from values
    return annotation.copy_with(changed) if hasattr(annotation, "copy_with") else origin[changed]


def _rebuilt(annotation: Any, seen: dict[Any, Any]) -> Any:
    from typing import NotRequired

    from typing_extensions import TypedDict

    if annotation in seen:
        return seen[annotation]
    seen[annotation] = annotation  # a type that holds itself stays as it is inside
    hints = get_type_hints(annotation, include_extras=True)
    fields = {
        name: understood(hint, seen) if name in annotation.__required_keys__ else NotRequired[understood(hint, seen)]
        for name, hint in hints.items()
    }
    rebuilt = cast("Any", TypedDict)(annotation.__name__, fields)
    rebuilt.__doc__ = annotation.__doc__
    rebuilt.__module__ = annotation.__module__
    seen[annotation] = rebuilt
    return rebuilt
