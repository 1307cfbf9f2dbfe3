"""Finds the tools and plugins that a module offers, and says why something in it could not be loaded."""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule import Decision, DefinitionError, Invocation, Plugin, Session, Tool, raw_tool
from ferrule.extension import flattened, give_back_stdout, phrase, take_stdout
from ferrule.extension.hosting import refuse_hidden, signature_of

if TYPE_CHECKING:
    from types import ModuleType


class HeldByTheBox:
    """The policy inside a box, of a plugin or a draft: Ferrule asked outside of it, and the box holds the answer."""

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        from ferrule import Decision, Verdict

        return Decision(Verdict.ALLOW, phrase("it runs in a box"))

    def remember(self, invocation: Invocation, session: Session) -> None:
        """Nothing is asked here."""


SETTINGS_VARIABLE = "FERRULE_PLUGIN_SETTINGS"


def plugin_settings() -> dict[str, str]:
    """What the user set for the plugin that this process runs; nothing where it runs none."""
    found: Any = json.loads(os.environ.get(SETTINGS_VARIABLE) or "{}")
    return {str(name): str(value) for name, value in found.items()}


_MOST_CHARACTERS = 300


@dataclass(slots=True, frozen=True)
class BrokenModule:
    """Something that should have brought tools and did not."""

    source: str
    reason: str


@dataclass(slots=True)
class Offered:
    """The tools of a module, with those of its plugins, and what in it could not be made one."""

    tools: list[Tool[Any]] = field(default_factory=list[Any])
    plugins: list[Plugin] = field(default_factory=list[Plugin])
    broken: list[BrokenModule] = field(default_factory=list[BrokenModule])
    listed: bool = False
    """Whether the module lists its tools in `TOOLS`."""


class ToolMaker:
    """Finds the tools of one module, and makes an instance of each tool class once."""

    def __init__(self, module: ModuleType, source: str) -> None:
        self.module = module
        self._source = source
        self._made: dict[type, Tool[Any] | BrokenModule] = {}
        self._plugins: dict[int, Plugin | BrokenModule] = {}

    def offered(self) -> Offered:
        """What the module offers now; a class that others derive from by now is a base class."""
        namespace = vars(self.module)
        found = Offered(listed="TOOLS" in namespace)
        for value in list(namespace.values()):
            try:
                refuse_hidden(value)
            except DefinitionError as error:
                found.broken.append(BrokenModule(self._source, str(error)))
        for value in _plugins_in(namespace):
            if id(value) not in self._plugins:
                self._plugins[id(value)] = self._plugin(value)
            plugin = self._plugins[id(value)]
            if isinstance(plugin, BrokenModule):
                found.broken.append(plugin)
            elif not any(plugin is known for known in found.plugins):
                found.plugins.append(plugin)
                found.tools += plugin.tools
        for value in self._candidates(namespace):
            one = value
            if is_tool_class(value):
                if value not in self._made:
                    self._made[value] = self._make(value)
                one = self._made[value]
            if isinstance(one, BrokenModule):
                found.broken.append(one)
            elif not isinstance(one, Tool):
                why = f"`TOOLS` lists a plain function, `{getattr(one, '__name__', '?')}`; decorate it with @tool"
                if not inspect.isroutine(one):
                    why = flattened(f"`TOOLS` must be a list of tools, but has {_shown(one)}", _MOST_CHARACTERS)
                found.broken.append(BrokenModule(self._source, why))
            elif not any(one is known for known in found.tools):
                found.tools.append(cast("Tool[Any]", one))
        return found

    def _plugin(self, value: Any) -> Plugin | BrokenModule:
        try:
            return plugin_from(value, self.module.__name__.rpartition(".")[2], self._source)
        except Exception as error:  # noqa: BLE001 - whatever one plugin does, the rest is loaded
            return BrokenModule(self._source, reason_of(error, _file_of(self.module)))

    def _candidates(self, namespace: dict[str, Any]) -> Iterator[Any]:
        if "TOOLS" in namespace:
            listed = namespace["TOOLS"]
            if isinstance(listed, (str, bytes, dict)) or not hasattr(listed, "__iter__"):
                yield listed
            else:
                yield from listed
            return
        values = list(namespace.values())
        used: set[Any] = {type(cast("Any", value)) for value in values if isinstance(value, Tool)}
        for value in values:
            own_class = is_tool_class(value) and value.__module__ == self.module.__name__
            if isinstance(value, Tool) or (own_class and value not in used and not _is_base(value)):
                yield value

    def _make(self, cls: type[Tool[Any]]) -> Tool[Any] | BrokenModule:
        source = f"{self._source}: {cls.__name__}"
        if needed := _needed_arguments(cls):
            line = f"line {found}: " if (found := self._line_of(cls)) else ""
            listed = ", ".join(f"`{one}`" for one in needed)
            return BrokenModule(
                source, f"{line}its constructor needs {listed}; create it in the file: `{cls.__name__}(…)`"
            )
        try:
            return cls()
        except BaseException as error:  # noqa: BLE001 - whatever one class does, the rest is loaded
            return BrokenModule(source, reason_of(error, _file_of(self.module), self._line_of(cls)))

    def _line_of(self, cls: type) -> int | None:
        import ast

        try:
            tree = ast.parse(Path(_file_of(self.module)).read_bytes())
        except (OSError, SyntaxError, ValueError):
            return None
        classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
        return next((node.lineno for node in classes), None)


# A plugin as a table or a module of its own has it: a name, a version, and tools that are a schema and a handler each.


_FIELDS = ("name", "version", "tools", "initialize", "cleanup")
_NAMES = ("plugin", "PLUGIN")
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def _plugins_in(namespace: dict[str, Any]) -> Iterator[Any]:
    """Each `Plugin` of a module, what is called `plugin` and has the fields of one, and a module with such fields."""
    for name, value in list(namespace.items()):
        is_called_so = name in _NAMES and not inspect.ismodule(value)
        if isinstance(value, Plugin) or (is_called_so and (isinstance(value, Mapping) or hasattr(value, "tools"))):
            yield value
    tools = namespace.get("tools")
    listed: list[Any] = list(cast("list[Any]", tools)) if isinstance(tools, (list, tuple)) else []
    if any(isinstance(one, Mapping) and {"schema", "handler"} <= one.keys() for one in listed):
        yield namespace


def plugin_from(value: Any, name: str, source: str) -> Plugin:
    """What has the fields of a plugin (a `Plugin`, a table, an object, the namespace of a module) as a `Plugin`.

    `name` is for one that has none. Raises `DefinitionError` where it can't be one.
    """
    if isinstance(value, Plugin):
        value.source = value.source or source
        value.tools = [_tool_from(one, place) for place, one in enumerate(value.tools)]
        return value
    given: Mapping[str, Any]
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        own = "__name__" not in given  # or else it is a module, which has more in it
        if own and (unknown := next((one for one in given if one not in _FIELDS), None)) is not None:
            listed = ", ".join(f"`{one}`" for one in _FIELDS)
            raise DefinitionError(f"a plugin has no `{unknown}`; its fields are {listed}")
    else:
        given = {one: getattr(value, one) for one in _FIELDS if hasattr(value, one)}
    tools = given.get("tools")
    if not isinstance(tools, (list, tuple)):
        raise DefinitionError(f"the `tools` of a plugin must be a list, not {_shown(tools)}")
    return Plugin(
        str(given.get("name") or name),
        str(given.get("version") or ""),
        [_tool_from(one, place) for place, one in enumerate(cast("list[Any]", tools))],
        given.get("initialize"),
        given.get("cleanup"),
        source,
    )


def _tool_from(value: Any, place: int) -> Tool[Any]:
    if isinstance(value, Tool):
        return cast("Tool[Any]", value)
    given = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}
    schema, handler = given.pop("schema", None), given.pop("handler", None)
    if not isinstance(schema, Mapping) or "name" not in schema or not callable(handler):
        raise DefinitionError(
            f'`tools[{place}]` must be a tool or {{"schema": {{"name": …, "description": …, "parameters": …}}, '
            f'"handler": …}}, not {flattened(_shown(value), _MOST_CHARACTERS)}'
        )
    said = cast("Mapping[str, Any]", schema)
    if "description" in said:
        given.setdefault("description", said["description"])
    return raw_tool(said["name"], said.get("parameters", _NO_PARAMETERS), handler, **given)


def is_tool_class(value: Any) -> bool:
    """Whether it is a subclass of `Tool`, and not an instance."""
    return isinstance(value, type) and issubclass(value, Tool)


def _is_base(cls: type[Tool[Any]]) -> bool:
    """Whether a class is only there for others to derive from."""
    if cls.__name__.startswith("_") or inspect.isabstract(cls):
        return True
    if not any("run" in vars(owner) for owner in cls.__mro__ if owner is not Tool):
        return True
    if "name" in vars(cls):
        return False
    for derived in cls.__subclasses__():  # one of a module as it is loaded now
        module = sys.modules.get(derived.__module__)
        if module is not None and any(value is derived for value in list(vars(module).values())):
            return True
    return False


def _needed_arguments(cls: type[Tool[Any]]) -> list[str]:
    try:
        parameters = signature_of(cls).parameters.values()
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters if one.default is inspect.Parameter.empty and one.kind in named]


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - whatever somebody's object does
        return f"a {type(value).__name__}"


# What went wrong, in one line


def reason_of(error: BaseException, file: str = "", line: int | None = None) -> str:
    """Why a file could not be loaded: its line, the error, and the file and line in its folder that raised it."""
    steps = list(_steps(error, file))
    own = next((number for name, number in reversed(steps) if name == file), line)
    where = f"line {own}: " if own else ""
    elsewhere = ""
    if steps and steps[-1][0] != file:
        name, number = steps[-1]
        elsewhere = f" ({Path(name).name}, line {number})"
    return f"{where}{flattened(_words(error), _MOST_CHARACTERS)}{elsewhere}"


def _steps(error: BaseException, file: str) -> Iterable[tuple[str, int]]:
    """The lines in the file and in others of its folder that led to the error, innermost last."""
    folder = f"{Path(file).parent}{os.sep}" if file else None
    frames = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        if folder is None:
            return [(error.filename, error.lineno)]
        frames.append((error.filename, error.lineno))
    return [(name, number) for name, number in frames if folder and name.startswith(folder)]


def _words(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return error.msg
    if isinstance(error, ModuleNotFoundError) and error.name:
        if error.name.startswith("."):
            return f"no module `{error.name[1:]}` in this folder"
        return f"no module named `{error.name}`; install it in Ferrule's environment"
    if isinstance(error.__cause__, DefinitionError):  # Python 3.11 wraps what goes wrong while a class is made
        error = error.__cause__
    if isinstance(error, DefinitionError):
        return str(error)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - whatever somebody's error does
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _file_of(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or ""


# Keeps what tool files and plugins print while they are imported off standard output: it goes to standard error.


_lock = threading.Lock()
_threads: set[int] = set()


class _Routed:
    """A standard stream that is another one for threads which are importing."""

    def __init__(self, stream: Any, aside: Callable[[], Any]) -> None:
        self.stream = stream
        self._aside = aside

    def __getattr__(self, name: str) -> Any:
        stream = self._aside() if threading.get_ident() in _threads else self.stream
        return getattr(stream, name)


@contextmanager
def printing_aside() -> Generator[None]:
    """Send what this thread prints to standard error, and give it an empty standard input.

    Other threads are not affected, so a program can go on writing while files are reloaded. Child processes are not
    covered: `descriptor_aside` is for those.
    """
    me = threading.get_ident()
    with _lock:
        _threads.add(me)
        if not isinstance(sys.stdout, _Routed):
            sys.stdout = _Routed(sys.stdout, lambda: sys.stderr or io.StringIO())
        if not isinstance(sys.stdin, _Routed):
            sys.stdin = _Routed(sys.stdin, io.StringIO)
    try:
        yield
    finally:
        with _lock:
            _threads.discard(me)
            if not _threads:
                sys.stdout, sys.stdin = _behind(sys.stdout), _behind(sys.stdin)


def _behind(stream: Any) -> Any:
    return stream.stream if isinstance(stream, _Routed) else stream


@contextmanager
def descriptor_aside() -> Generator[None]:
    """Make standard output be standard error for the whole process and its children, besides `printing_aside`.

    For start-up only, before the program writes anything itself.
    """
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    try:
        taken = take_stdout()
    except OSError:  # it is closed
        with printing_aside():
            yield
        return
    try:
        with printing_aside():
            yield
    finally:
        give_back_stdout(taken)
