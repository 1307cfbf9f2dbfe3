"""What is known of the tools in a folder without loading its files: they are loaded when a tool of them is used.

The index holds what models and lists are shown of each tool. It counts for a file as long as that file is as it was,
and the files of the folder that it imports. Only files are taken in whose tools follow from their text alone: what
reads a setting or a clock while it is loaded, or has tools of another sort, is loaded at every start.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule import DefinitionError, Description, Example, FunctionTool, Kind, __version__
from ferrule.extension import data_folder, read_json, write_json
from ferrule.extension.hosting import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

Sources = dict[str, bytes | str]
"""The Python files of a folder by path: the content of each, or why it cannot be read."""

logger = logging.getLogger("ferrule.plugins")


# A tool of which only what is shown is there


_WORDS = ("tags", "roles", "needs")
_PLAIN = (
    "name", "display_name", "kind_given", "version", "category", "strict", "concurrency_safe", "runs_alone",
    "takes_turns", "enabled", "repair", "dangerous", "requires_permission", "asks_anyway", "idempotent", "timeout",
    "max_result", "grace", "may_block", "remote", "deferred", "calls_tools", "preview_seconds", "doing", "read_only",
    "cache", "wants_context",
    "has_check", "has_ready", "has_preview", "has_words", "has_render", "has_touches", "has_signature",
    "checks_output",
)  # fmt: skip
_LOADED_FOR = (
    "touches", "signature", "always_rule", "summary", "only_reads", "_described", "function", "start", "run", "check",
    "preview", "ready", "describe", "render", "display", "fit_output", "nothing_yielded", "compiled", "__call__",
)  # fmt: skip


class ShelvedTool(FunctionTool):
    """Shows a tool whose file is not loaded. When anything else is asked of it, it becomes that tool."""

    def __init__(self, shown: Mapping[str, Any], load: Callable[[], str]) -> None:
        """`load` loads its file, and has each tool of it become what it is; it gives why that could not be."""
        # Not `super().__init__`: there is no function yet.
        own = vars(self)
        own.update({name: shown[name] for name in _PLAIN})
        own.update({name: frozenset(shown[name]) for name in _WORDS})
        own.update(kind=Kind(shown["kind"]), style=Style(shown["style"]))
        said = shown["description"]
        own["_description"] = Description(
            said["short"], said["long"], tuple(said["usage_notes"]), tuple(said["important_notes"]),
            tuple(Example(one["description"], one["params"]) for one in said["examples"]),
        )  # fmt: skip
        own["_example_faults"] = tuple(shown["example_faults"])
        own.update(_input=shown["input_schema"], _derived_output_schema=shown["output_schema"])
        own.update(_load=load, _first=self)

    def become(self, tool: FunctionTool) -> None:
        """Be that tool from now on, under the name that it has here."""
        vars(self).update(vars(tool), name=self.name, workspace=self.workspace)
        self.__class__ = type(tool)  # pyright: ignore[reportAttributeAccessIssue]

    def _loaded(self) -> Any:
        why = self._load()
        if type(self) is ShelvedTool:
            if type(self._first) is ShelvedTool:
                raise DefinitionError(f"`{self.name}` could not be loaded: {why or 'its file has no such tool'}.")
            self.become(self._first)  # a copy, under another name
        return self

    def require_ready(self) -> None:
        """It was when it was taken in."""

    @property
    def is_unbound(self) -> bool:
        return False

    @property
    def input_schema(self) -> dict[str, Any]:
        return self._input

    def _compile(self) -> Any:
        return self._loaded().params

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__qualname__", "__signature__"):
            raise AttributeError(name)
        return getattr(self._loaded(), name)


def _loading(name: str) -> Any:
    return property(lambda self: getattr(self._loaded(), name))


for _name in _LOADED_FOR:
    setattr(ShelvedTool, _name, _loading(_name))


def shown_of(tool: FunctionTool) -> dict[str, Any]:
    """What is shown of a tool, as JSON."""
    said = tool.description
    return {
        **{name: getattr(tool, name) for name in _PLAIN},
        **{name: sorted(getattr(tool, name)) for name in _WORDS},
        "kind": tool.kind.value,
        "style": tool.style.value,
        "description": {
            "short": said.short, "long": said.long, "usage_notes": said.usage_notes,
            "important_notes": said.important_notes,
            "examples": [{"description": one.description, "params": one.params} for one in said.examples],
        },
        "example_faults": tool.example_faults,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
    }  # fmt: skip


# Whether the tools of a file follow from its text


_VARIES = frozenset({
    "os", "sys", "time", "datetime", "random", "secrets", "platform", "socket", "locale", "subprocess", "pathlib",
    "shutil", "glob", "uuid", "getpass", "tempfile", "importlib", "io", "sysconfig", "site", "zoneinfo",
})  # fmt: skip
"""Modules of which what is imported may be another thing tomorrow, or elsewhere."""
_TRUSTED = frozenset({
    *(sys.stdlib_module_names - _VARIES),
    "ferrule", "pydantic", "pydantic_core", "typing_extensions", "annotated_types",
})  # fmt: skip
_MAKES = frozenset({
    "tool", "Field", "ConfigDict", "Description", "Example", "reads", "writes", "Touch", "TypeVar", "ParamSpec",
    "NewType", "TypedDict", "NamedTuple", "namedtuple", "field", "dataclass", "dataclass_transform", "getLogger",
    "compile", "auto", "cast", "override", "final", "lru_cache", "cache", "wraps", "contextmanager",
    "asynccontextmanager", "Lock", "RLock", "Semaphore", "ContextVar", "field_validator", "model_validator",
    "AfterValidator", "BeforeValidator", "StringConstraints", "abstractmethod", "cached_property", "MappingProxyType",
})  # fmt: skip
"""What may be called of trusted modules while a file is loaded: it gives the same each time."""
_BUILT_IN = frozenset({"frozenset", "set", "dict", "list", "tuple", "property", "staticmethod", "classmethod"})
_RUNS_LATER = frozenset({"__init_subclass__", "__set_name__", "__class_getitem__", "__getattr__"})
"""Functions that run when something else is made, as while the file is loaded."""


def follows_from_text(source: bytes, siblings: Collection[str] = ()) -> bool:
    """Whether loading a file gives the same tools each time, as far as the other files of its folder do: `siblings`."""
    try:
        tree = ast.parse(source)
        names = _FileNames(tree, siblings)
        return all(names.is_plain(one) for one in tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


class _FileNames:
    """The names of a file: those that its imports bring, by where they come from."""

    def __init__(self, tree: ast.Module, siblings: Collection[str]) -> None:
        self._trusted: set[str] = set()
        foreign: set[str] = set()
        own: set[str] = set()

        def of(module: str) -> set[str]:
            """What is imported from a file of the folder holds as long as that file does, and is never called."""
            top = module.partition(".")[0]
            return self._trusted if top in _TRUSTED else own if top in siblings else foreign

        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    of(one.name).add(one.asname or one.name.partition(".")[0])
            elif isinstance(node, ast.ImportFrom):
                into = own if node.level else of(node.module or "")
                into |= {one.asname or one.name for one in node.names}
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                own.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
        self._trusted -= own | foreign
        self._built_in = _BUILT_IN - own - foreign
        self._foreign = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(foreign)))})\b") if foreign else None

    def is_plain(self, node: ast.stmt) -> bool:
        """Whether a statement of a module or a class does the same each time it runs."""
        match node:
            case ast.ImportFrom():
                return all(one.name != "*" for one in node.names)
            case ast.Import() | ast.Pass() | ast.Expr(value=ast.Constant()):
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                given = node.args
                every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                shown = [one.annotation for one in every if one is not None]
                return (
                    node.name not in _RUNS_LATER
                    and all(map(self._is_called_safely, node.decorator_list))
                    and self._are_same([*given.defaults, *given.kw_defaults, *shown, node.returns])
                )
            case ast.ClassDef():
                bases = [*node.bases, *(one.value for one in node.keywords)]
                return (
                    not any(one.arg == "metaclass" for one in node.keywords)
                    and all(map(self._is_called_safely, node.decorator_list))
                    and self._are_same(bases)
                    and all(map(self.is_plain, node.body))
                )
            case ast.Assign():
                return self._are_same([node.value]) and all(isinstance(one, ast.Name) for one in node.targets)
            case ast.AnnAssign():
                return self._are_same([node.annotation, node.value]) and isinstance(node.target, ast.Name)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                return not node.orelse
            case _:
                return False

    def _is_called_safely(self, called: ast.expr) -> bool:
        """Whether something may be called, such as a decorator: with arguments of its own, or without."""
        if isinstance(called, ast.Call):
            return self._is_called_safely(called.func) and self._are_same(
                [*called.args, *(one.value for one in called.keywords)]
            )
        if isinstance(called, ast.Name):
            return called.id in self._built_in or (called.id in self._trusted and called.id in _MAKES)
        return (
            isinstance(called, ast.Attribute)
            and called.attr in _MAKES
            and isinstance(called.value, ast.Name)
            and called.value.id in self._trusted
        )

    def _are_same(self, values: Iterable[ast.expr | None]) -> bool:
        """Whether each expression gives the same each time."""
        for value in values:
            for node in ast.walk(value) if value is not None else ():
                match node:
                    case ast.Call():
                        if not self._is_called_safely(node):
                            return False
                    case ast.Name(id=text) | ast.Constant(value=str() as text):  # an annotation may be a text
                        if self._foreign is not None and self._foreign.search(text):
                            return False
                    case ast.Await() | ast.Yield() | ast.YieldFrom() | ast.NamedExpr():
                        return False
                    case _:
                        continue
        return True


# The index


class ToolsIndex:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        name = hashlib.sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._file = data_folder() / "tools-index" / f"{name}.json"
        self._made_by = [__version__, sys.version, folder]
        self._files: dict[str, Any] | None = None
        self._digests: dict[bytes, str] = {}

    def find(self, path: str, sources: Sources) -> list[dict[str, Any]] | None:
        """What is shown of the tools in a file; None where it has to be loaded to know."""
        known = self._known().get(path)
        if known is None or known["digest"] != self._digest(sources, path):
            return None
        if any(self._digest(sources, one) != digest for one, digest in known["imports"].items()):
            return None
        return known["tools"]

    def imports(self, path: str) -> set[str]:
        """The files of the folder that a file in the index imports, directly or through others."""
        return set(self._known()[path]["imports"])

    def keep(self, found: Mapping[str, tuple[set[str], list[FunctionTool]]], sources: Sources) -> None:
        """Take in files by what they import and their tools, and forget what is not there any more."""
        files = {path: one for path, one in self._known().items() if path in sources}
        siblings = {Path(path).stem if Path(path).stem != "__init__" else Path(path).parent.name for path in sources}
        for path, (imports, tools) in found.items():
            needed = [sources.get(one) for one in (path, *imports)]
            if not all(isinstance(one, bytes) and follows_from_text(one, siblings) for one in needed):
                files.pop(path, None)
                continue
            try:
                shown = [shown_of(tool) for tool in tools]
            except Exception:  # a tool with a broken definition: `ferrule lint` and every call report it
                logger.debug("The tools of %s are not kept in the index", path, exc_info=True)
                continue
            files[path] = {
                "digest": self._digest(sources, path),
                "imports": {one: self._digest(sources, one) for one in sorted(imports)},
                "tools": shown,
            }
        if files == self._files:
            return
        self._files = files
        try:
            write_json(self._file, {"made_by": self._made_by, "files": files})
        except (OSError, TypeError, ValueError) as error:  # a value without a JSON form, or no room: it is made again
            logger.info("The index of the tools in %s could not be kept: %s", self._folder, error)

    def _known(self) -> dict[str, Any]:
        if self._files is None:
            read = read_json(self._file)
            self._files = cast("dict[str, Any]", read["files"]) if read.get("made_by") == self._made_by else {}
        return self._files

    def _digest(self, sources: Sources, path: str) -> str:
        source = sources.get(path)
        if not isinstance(source, bytes):
            return ""
        found = self._digests.get(source)
        if found is None:
            found = self._digests[source] = hashlib.sha256(source).hexdigest()
        return found
