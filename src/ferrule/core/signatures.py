"""What a function says of itself: its parameters, its types, its docstring, and where the context goes."""

from __future__ import annotations

import inspect
import sys
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module
from types import GenericAlias, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    Literal,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ferrule.core.context import ToolContext
from ferrule.core.errors import DefinitionError
from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import CodeType

_IDENTIFIER = lazy_pattern(r"[^\W\d]\w*")
_CONTEXT_OF = lazy_pattern(r"\bToolContext\[(.*)\]")
_MAY_BE_NOTHING = lazy_pattern(r"\b(?:None|Any|object|Optional)\b")


def without_partials(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    return function


def doc_of(function: Callable[..., Any]) -> str | None:
    """The docstring of the function as it is written, or of the class of a callable object; else an inherited one."""
    function = without_partials(function)
    own = getattr(function, "__doc__", None)
    return own if isinstance(own, str) else inspect.getdoc(function)


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function somebody wrote, inside partials, decorators that say what they wrap, and callable objects."""
    function = without_partials(function)
    while hasattr(function, "__wrapped__"):
        function = without_partials(cast("Any", function).__wrapped__)
    return function if inspect.isroutine(function) else type(function).__call__


def annotations_of(target: Any) -> dict[str, Any]:
    """The annotations; as text where one names what is not known here, which Python 3.14 allows everywhere."""
    try:
        return getattr(target, "__annotations__", None) or {}
    except NameError:
        annotationlib = import_module("annotationlib")
        return annotationlib.get_annotations(target, format=annotationlib.Format.STRING)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, with annotations as text where one names what is not known here."""
    try:
        return inspect.signature(function)
    except NameError:
        as_text = import_module("annotationlib").Format.STRING
        return cast("Any", inspect).signature(function, annotation_format=as_text)


def shown_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What a model may give: what a partial has bound is the program's own, and may be a secret."""
    bound: set[str] = set()
    inner = function
    while isinstance(inner, partial):
        bound |= cast("partial[Any]", inner).keywords.keys()
        inner = cast("partial[Any]", inner).func
    return [one for one in signature_of(function).parameters.values() if one.name not in bound]


def hints_of(
    function: Callable[..., Any], *, returned: bool, local_names: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The annotations as types, `Annotated` kept: of the parameters, or of what is returned.

    Apart, because a return type is often imported for type checkers alone, and parameters can do without it.
    """
    target: Any = written(function)
    notes = {name: note for name, note in annotations_of(target).items() if (name == "return") is returned}
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


def surroundings(target: Any) -> tuple[bool, dict[str, Any]]:
    """Whether a function is just being defined in a class, and what its annotations name of the scopes around it.

    Under `from __future__ import annotations` a type is only a name, and one that is local to a function is gone when
    the parameters are compiled. So the named values are kept, and never a frame.
    """
    around = getattr(target, "__qualname__", "").rpartition(".")[0]
    found: dict[str, Any] = {}
    if not around:
        return False, found
    cls = _class_around(target)
    wanted = {name for note in annotations_of(target).values() for name in _names_in(note)}
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
    if annotation is None or isinstance(annotation, type):  # as most are
        return annotation is ToolContext
    origin = get_origin(annotation)
    if origin in (Union, UnionType, Annotated):
        return any(map(is_context, get_args(annotation)))
    return origin is ToolContext


def wanted_deps(annotations: Iterable[Any]) -> Any:
    """The `Shop` that a `ToolContext[Shop]` among them asks for; None without one, and for `ToolContext[Shop | None]`.

    It is `object` where only type checkers know what the annotation names.
    """
    for one in annotations:
        if isinstance(one, str):  # a name in it may be known to type checkers alone
            found = _CONTEXT_OF.search(one)
            if found is not None and not _MAY_BE_NOTHING.search(found[1]):
                return object
        elif get_origin(one) is ToolContext:
            wanted: Any = get_args(one)[0]
            if wanted not in (Any, object, None, NoneType) and NoneType not in get_args(wanted):
                return wanted
        elif get_origin(one) in (Union, UnionType, Annotated) and (wanted := wanted_deps(get_args(one))) is not None:
            return wanted
    return None


def wanted_deps_of(function: Callable[..., Any]) -> Any:
    """The same for a function, whose annotations may be text that is read only where it matters."""
    wanted = wanted_deps(annotations_of(written(function)).values())
    if wanted is object:
        with suppress(NameError):
            return wanted_deps(hints_of(function, returned=False).values())
    return wanted


def is_a(value: object, kind: Any) -> bool:
    """Whether it is of that type, as far as can be said: a protocol may be one that can't be checked."""
    try:
        return isinstance(value, kind)
    except TypeError:
        return True


def may_be_context(target: Any, parameter: str, local_names: Mapping[str, Any]) -> bool:
    note = annotations_of(target).get(parameter)
    if not isinstance(note, str):
        return is_context(note)
    names = _IDENTIFIER.findall(note)
    known = getattr(target, "__globals__", {})
    return "ToolContext" in names or any(is_context(local_names.get(one, known.get(one))) for one in names)


def refuse_second_context(
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
