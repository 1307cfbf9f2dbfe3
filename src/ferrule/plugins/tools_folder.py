"""A folder of Python files with tools: a package of its own, which can be reloaded while it is in use.

The files import each other, with `import helper` or `from . import helper`, and no other code sees them: they are the
modules of a package with a unique name, and only they resolve `import` this way. So two folders can each have a
`util.py`, and a `json.py` in a folder never takes the place of the standard library's. A name that the standard
library or an installed package has means that; the folder comes last.

Files are always loaded from source, never from a bytecode cache. A changed file is reloaded together with the files
that import it. If that fails, the version loaded before stays.
"""

from __future__ import annotations

import builtins
import importlib.util
import itertools
import os
import re
import stat
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ferrule import FunctionTool
from ferrule.extension.hosting import interrupt
from ferrule.plugins.plugin import BrokenModule, Offered, ToolMaker, printing_aside, reason_of
from ferrule.plugins.tools_index import ShelvedTool, Sources, ToolsIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferrule import Plugin, Tool

KEPT = "the version loaded before stays in use"
_SECONDS = 30.0
_SECONDS_TO_STOP = 0.5
_CLOCK_STEP = 2.5
"""Seconds. File systems keep time in steps of up to two seconds: a file that changed this recently is read again."""
_INIT = "__init__.py"
_IMPORTS = re.compile(rb"^[ \t]*(?:from|import)\b(?:[^\n(]*\([^)]*\)|[^\n]*)", re.MULTILINE)

_numbers = itertools.count(1)
_packages: dict[str, ToolsFolder] = {}


@dataclass(slots=True)
class FileTools:
    """One file of a folder: its tools as of now, and what is wrong with it."""

    path: str
    tools: list[Tool[Any]] = field(default_factory=list[Any])
    plugins: list[Plugin] = field(default_factory=list["Plugin"])
    """Those of the tools that come with a start and an end."""
    broken: list[BrokenModule] = field(default_factory=list[BrokenModule])


@dataclass(slots=True)
class _Loaded:
    """A module of the folder. `number` is the order in which modules finished loading, dependencies first."""

    module: ModuleType
    path: str
    number: int
    imports: set[str]


@dataclass(slots=True, frozen=True)
class _Failure:
    """Why a file could not be loaded. `missing`: it lacked a module, which may be installed later."""

    why: str
    missing: bool = False


class _Unreadable(Exception):  # noqa: N818 - reads as what it says
    """The file cannot be read; the message is the whole reason."""


class ToolsFolder:
    """A folder and what was loaded from it. `look` reads the files; `refresh` loads what changed."""

    def __init__(self, path: Path, *, seconds: float = _SECONDS, indexed: bool = False) -> None:
        """With `indexed`, a file whose tools are known from before is loaded when one of them is used."""
        self.path = str(path.absolute())  # not resolved: a link may point elsewhere later
        self.files: list[FileTools] = []
        self.broken: list[BrokenModule] = []
        """What is wrong with the folder itself, and with its helper files."""
        self.sources: Sources | None = None
        """The files as they were loaded; None if there is no such folder."""
        self.package = f"ferrule_tools_{next(_numbers)}_{path.name.replace('.', '_')}"
        self._init = os.path.join(self.path, _INIT)  # noqa: PTH118 - paths are strings here: they are compared once a second
        self._seconds = seconds
        self._seen: dict[str, tuple[object, bytes | str]] = {}
        self._places = {self.path}
        self._loaded: dict[str, _Loaded] = {}
        self._imports: dict[str, set[str]] = {}
        self._noting = threading.Lock()
        self._running = threading.local()
        self._makers: dict[str, ToolMaker] = {}
        self._offers: dict[str, Offered] = {}
        self._failed: dict[str, _Failure] = {}
        self._done = itertools.count()
        self._installed: dict[str, bool] = {}
        self._index = ToolsIndex(self.path) if indexed else None
        self._shelved: dict[str, list[ShelvedTool]] = {}
        """The files that are not loaded, because the index knows their tools."""
        self._loading = threading.RLock()
        self._builtins = {**vars(builtins), "__import__": self._import}
        _packages[self.package] = self
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())

    # Looking

    def look(self) -> Sources | None:
        """All files that matter, as they are now. None: there is no such folder. OSError: it cannot be listed."""
        found: Sources = {}
        try:
            self._look_in(self.path, found)
        except (FileNotFoundError, NotADirectoryError):
            return None
        for place in sorted(self._places - {self.path}):
            try:
                self._look_in(place, found)
            except OSError:
                continue  # the files that import from it report that
        self._seen = {path: one for path, one in self._seen.items() if path in found}
        return found

    def _look_in(self, place: str, found: Sources) -> None:
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(".py") and entry.name[0] != ".")
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118
            source = self._read(path)
            if source is not None:
                found[path] = source

    def _read(self, path: str) -> bytes | str | None:
        """A file's content, read again only if it may have changed."""
        try:
            state = os.stat(path)  # noqa: PTH116
            if not stat.S_ISREG(state.st_mode):
                return None
            mark = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
            age = time.time() - max(state.st_mtime, state.st_ctime)
            known = self._seen.get(path)
            if known is not None and known[0] == mark and abs(age) > _CLOCK_STEP:
                return known[1]
            with open(path, "rb") as file:  # noqa: PTH123
                source = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"it cannot be read: {error.strerror or error}"
        self._seen[path] = (mark, source)
        return source

    # Loading

    def refresh(self, sources: Sources | None, only: Iterable[str] | None = None) -> None:
        """Load what is new or changed and the files that import it, and bring `files` and `broken` up to date.

        A file that failed is tried again when it or something it imports has changed, or if it lacked a module.
        `only` limits which files are loaded for their tools.
        """
        with self._loading:
            self._refresh(sources, only)

    def _refresh(self, sources: Sources | None, only: Iterable[str] | None) -> None:
        before, now = self.sources or {}, sources or {}
        changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        index = self._index
        for path in [one for one in self._shelved if index and not changed.isdisjoint({one, *index.imports(one)})]:
            if path in now:
                self._unshelve(path)  # as it was: if what it is now cannot be loaded, that stays in use
            else:
                del self._shelved[path]
        self.sources = sources
        kept = self._unusable(changed, now)
        lacking = {path for path, one in self._failed.items() if one.missing}
        stale = {self._name_of(path) for path in (changed | lacking) - kept.keys()}
        with self._noting:
            importing = {name: set(imports) for name, imports in self._imports.items()}
        while more := {name for name, imports in importing.items() if name not in stale and imports & stale}:
            stale |= more
        old = self._take_out(stale)
        still_failed = {path: one for path, one in self._failed.items() if self._name_of(path) not in stale}
        self._failed = still_failed | kept
        wanted = sorted(path for path in now if self._brings_tools(path)) if only is None else sorted(only)
        waiting = [path for path in wanted if path not in self._failed and not self._is_at_hand(path, now)]
        if waiting or old or not self._shelved:
            self._load_package(old, now)
        for path in waiting:
            name = self._name_of(path)
            if name not in self._loaded:  # another one has imported it meanwhile
                self._attempt(path, lambda name=name, path=path: self._load(name, path))
        self._put_back(old, now)
        self._take_stock(wanted)
        if self._index is not None and waiting:
            self._index.keep(self._fit_for_index(), now)

    # Files that are loaded when they are needed

    def _is_at_hand(self, path: str, now: Sources) -> bool:
        """Whether the tools of a file are known: it is loaded, or the index has them."""
        if self._name_of(path) in self._loaded or path in self._shelved:
            return True
        shown = self._index.find(path, now) if self._index is not None else None
        if shown is None:
            return False
        self._shelved[path] = [ShelvedTool(one, partial(self._loaded_now, path)) for one in shown]
        return True

    def _loaded_now(self, path: str) -> str:
        """Load a file because one of its tools is used; gives why it could not be."""
        with self._loading:
            if path in self._shelved:
                self._unshelve(path)
            return self._failed[path].why if path in self._failed else ""

    def _unshelve(self, path: str) -> None:
        """Load a file whose tools were only known."""
        tools, name = self._shelved.pop(path), self._name_of(path)
        self._load_package({}, self.sources or {})
        if name not in self._loaded:
            self._attempt(path, lambda: self._load(name, path))
        if name not in self._loaded or path in self._failed:
            return
        offer = self._offers[name] = self._offer(name, self._loaded[name])
        known = {(tool.name, tool.version): tool for tool in tools}
        for at, one in enumerate(offer.tools):
            shown = known.get((one.name, one.version))
            if shown is not None and isinstance(one, FunctionTool):
                shown.become(cast("FunctionTool", one))
                offer.tools[at] = shown  # which is the one that registries have

    def _fit_for_index(self) -> dict[str, tuple[set[str], list[FunctionTool]]]:
        """The loaded files that bring nothing but tools made with `@tool`, with the files that they import."""
        found: dict[str, tuple[set[str], list[FunctionTool]]] = {}
        for file in self.files:
            imports = self._all_imports(self._name_of(file.path))
            tools = [one for one in file.tools if type(one) is FunctionTool]
            if imports is not None and len(tools) == len(file.tools) and not (file.broken or file.plugins):
                found[file.path] = imports, tools
        return found

    def _all_imports(self, name: str) -> set[str] | None:
        """The files that a loaded one imports, directly or through others; None where one of them is not loaded."""
        found: set[str] = set()
        waiting = [name, self.package] if self._init in (self.sources or {}) else [name]
        names = set(waiting)
        while waiting:
            one = self._loaded.get(waiting.pop())
            if one is None:
                return None
            found.add(one.path)
            more = {each for each in one.imports if each != self.package} - names
            names |= more
            waiting += more
        return found - {self._loaded[name].path}

    def _brings_tools(self, path: str) -> bool:
        folder, name = os.path.split(path)
        return folder == self.path and not name.startswith("_")

    def _unusable(self, changed: set[str], now: Sources) -> dict[str, _Failure]:
        """Loaded files whose new content cannot be used, perhaps because an editor is still writing it."""
        found: dict[str, _Failure] = {}
        for path in changed:
            source = now.get(path)
            if source is None or self._name_of(path) not in self._loaded:
                continue
            if isinstance(source, str):
                found[path] = _Failure(source)
            elif not source.strip() and self._brings_tools(path):
                found[path] = _Failure("it is empty")
            else:
                try:
                    compile(source, path, "exec", dont_inherit=True)
                except Exception as error:  # noqa: BLE001 - code that nests too deeply is no SyntaxError
                    found[path] = self._failure(error, path)
        return found

    def _take_out(self, stale: set[str]) -> dict[str, _Loaded]:
        """Unload modules, so that the next import loads them anew; returns what they were."""
        old = {name: self._loaded.pop(name) for name in stale if name in self._loaded}
        for name in stale - {self.package}:
            with self._noting:
                self._imports.pop(name, None)
            module = sys.modules.pop(name, None)
            parent, _, last = name.rpartition(".")
            if module is not None and getattr(sys.modules.get(parent), last, None) is module:
                delattr(sys.modules[parent], last)
        return old

    def _put_back(self, old: dict[str, _Loaded], now: Sources) -> None:
        """Bring back the old version of each file that failed to reload, with the modules it imported."""
        waiting = [name for name, one in old.items() if one.path in self._failed and one.path in now]
        while waiting:
            name = waiting.pop()
            if name in self._loaded or name not in old:
                continue
            one = self._loaded[name] = old[name]
            sys.modules[name] = one.module
            with self._noting:
                self._imports[name] = one.imports | self._imports.get(name, set())
            waiting += one.imports
        self._name_in_parents()
        for name in old.keys() - self._loaded.keys():
            self._makers.pop(name, None)
            self._offers.pop(name, None)

    def _name_in_parents(self) -> None:
        """Set each module as an attribute of its package, where `from . import helper` looks first."""
        for name, one in list(self._loaded.items()):
            parent, _, last = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], last, one.module)

    def _load_package(self, old: Mapping[str, _Loaded], now: Sources) -> None:
        """Load the package itself: `__init__.py` if there is one, else an empty module."""
        made = self.package in sys.modules and self.package not in old
        if self.package in self._loaded or (made and (self._init not in now or self._init in self._failed)):
            return
        spec = self.spec(self.package) or ModuleSpec(self.package, None, is_package=True)
        spec.submodule_search_locations = [self.path]
        module = sys.modules[self.package] = importlib.util.module_from_spec(spec)
        self._name_in_parents()
        self._attempt(self._init, lambda: _execute(spec, module))

    def _load(self, name: str, path: str) -> None:
        if name in sys.modules:
            return
        if isinstance(unreadable := (self.sources or {}).get(path), str):
            raise _Unreadable(unreadable)
        spec = self._spec_of(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            _execute(spec, module)
        except BaseException:
            if sys.modules.get(name) is module:
                del sys.modules[name]
            raise
        setattr(sys.modules[self.package], name.rpartition(".")[2], module)

    def _attempt(self, path: str, work: Callable[[], None]) -> None:
        """Run a file's code with a time limit, in a thread of its own; note why it failed."""
        failed: list[BaseException] = []

        def guarded() -> None:
            try:
                with printing_aside():
                    work()
            except BaseException as error:  # noqa: BLE001 - a file may fail in any way, and must not take us along
                failed.append(error)

        thread = threading.Thread(target=guarded, name="ferrule-tools-folder", daemon=True)
        thread.start()
        thread.join(self._seconds)
        if thread.is_alive():
            interrupt(thread.ident or 0)  # at its next Python instruction; a blocking system call has to return first
            thread.join(_SECONDS_TO_STOP)
            self._failed[path] = _Failure(f"loading it took more than {self._seconds:g} s")
        elif failed:
            self._failed[path] = self._failure(failed[0], path)

    # What there is now

    def _take_stock(self, wanted: Sequence[str]) -> None:
        """Work out each file's tools. A tool belongs to the file that made it, or to one that lists it, in
        `TOOLS` or a plugin.
        """
        from ferrule import Tool

        names = {path: self._name_of(path) for path in wanted}
        loaded = [(path, name, self._loaded[name]) for path, name in names.items() if name in self._loaded]
        owners: dict[int, str] = {}
        for path, name, one in sorted(loaded, key=lambda each: each[2].number):
            if path not in self._failed:
                self._offers[name] = self._offer(name, one)
            for value in list(vars(one.module).values()):
                if isinstance(value, Tool):
                    owners.setdefault(id(cast("Any", value)), name)
        self.broken = [
            self._broken(path, self._name_of(path) in self._loaded) for path in self._failed.keys() - names.keys()
        ]
        if self.sources is None:
            is_file = os.path.isfile(self.path)  # noqa: PTH113
            why = "it is a file; name its folder" if is_file else "there is no such folder"
            self.broken.insert(0, BrokenModule(self.path, why))
        self.files = []
        for path, name in names.items():
            file = FileTools(path)
            self.files.append(file)
            offer = self._offers.get(name) if name in self._loaded else None
            if offer is not None:
                held = {id(tool) for plugin in offer.plugins for tool in plugin.tools}
                file.plugins = offer.plugins
                file.tools = [
                    tool
                    for tool in offer.tools
                    if offer.listed or id(tool) in held or owners.get(id(tool), name) == name
                ]
            if path in self._shelved:
                file.tools = [*self._shelved[path]]
            elif path in self._failed:
                file.broken = [self._broken(path, offer is not None)]
            elif offer is not None:
                file.broken = offer.broken
                if not (offer.tools or offer.plugins or offer.listed or offer.broken or self._helps(path, name)):
                    file.broken = [
                        BrokenModule(path, "no tools found; decorate a function with @tool, or list tools in `TOOLS`")
                    ]

    def _offer(self, name: str, one: _Loaded) -> Offered:
        maker = self._makers.get(name)
        if maker is None or maker.module is not one.module:
            maker = self._makers[name] = ToolMaker(one.module, one.path)
        made: list[Offered] = []
        self._attempt(one.path, lambda: made.append(maker.offered()))
        return made[0] if made else Offered()

    def _helps(self, path: str, name: str) -> bool:
        """Whether another file imports this one, or has an import of it that has not run yet."""
        with self._noting:
            if any(name in imports for importer, imports in self._imports.items() if importer != name):
                return True
        word = re.compile(rb"\b%s\b" % re.escape(name.rpartition(".")[2].encode()))
        others = [source for other, source in (self.sources or {}).items() if other != path]
        imports = (found[0] for source in others if isinstance(source, bytes) for found in _IMPORTS.finditer(source))
        return any(word.search(one) for one in imports)

    def _broken(self, path: str, kept: bool) -> BrokenModule:
        why = self._failed[path].why
        return BrokenModule(path, f"{why}; {KEPT}" if kept else why)

    def _failure(self, error: BaseException, path: str) -> _Failure:
        if isinstance(error, _Unreadable):
            return _Failure(str(error))
        name = os.path.basename(self.path)  # noqa: PTH119
        words = reason_of(error, path).replace(f"{self.package}.", "").replace(self.package, name)
        module = error.name if isinstance(error, ImportError) else None
        if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
            module = error.obj.__name__
        top = (module or "").partition(".")[0]
        if top and self._installed.get(top):  # the import meant a file of the folder
            words += f"; `{top}` is an installed package here, use `from . import {top}` for the file in the folder"
        return _Failure(words, isinstance(error, ModuleNotFoundError))

    # Importing, for the files of the folder

    def _name_of(self, path: str) -> str:
        parts = Path(path).relative_to(self.path).with_suffix("").parts
        inside = parts[:-1] if parts[-1] == "__init__" else parts
        return ".".join([self.package, *(part.replace(".", "%2E") for part in inside)])

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls them
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        scope = globals or {}
        importer = str(scope.get("__name__", ""))
        top = name.partition(".")[0]
        own = self._own_name(top, importer) if level == 0 else ""
        target = own + name[len(top) :] if own else name
        if level > 0:
            package = str(scope.get("__package__") or self.package)
            target = importlib.util.resolve_name("." * level + name, package)
        try:
            if own and not fromlist:
                importlib.import_module(target)
                found = sys.modules[own]
            else:
                found = builtins.__import__(name if level else target, globals, locals, fromlist or (), level)
        except ModuleNotFoundError as error:
            inside = f"{self.package}."
            missing = error.name or ""
            self._note(importer, missing if missing.startswith(inside) else inside + missing.partition(".")[0])
            if missing.startswith(inside):
                short = missing.removeprefix(inside)
                raise ModuleNotFoundError(f"No module named '{short}'", name=f".{short}") from None
            raise
        except BaseException:
            self._note(importer, target)
            raise
        if target.partition(".")[0] == self.package:
            below = [f"{target}.{one}" for one in fromlist or ()]
            modules = [one for one in below if one in sys.modules]
            if not modules or len(modules) < len(below):
                self._note(importer, target)
            for one in modules:
                self._note(importer, one)
        return found

    def _note(self, importer: str, imported: str) -> None:
        if imported != importer and imported.partition(".")[0] == self.package:
            with self._noting:
                self._imports.setdefault(importer, set()).add(imported)

    def _own_name(self, top: str, importer: str) -> str:
        """What a top-level name is called in this package, if it means a file of the folder, or the folder itself.

        It does not if the standard library or an installed package has the name, or in the very file of that name.
        """
        own = f"{self.package}.{top}"
        if top in sys.stdlib_module_names or importer == own:
            return ""
        place = Path(self.path, top)
        if own not in self._loaded and not place.with_suffix(".py").is_file() and not place.is_dir():
            own = self.package if self._init in (self.sources or {}) and top == Path(self.path).name else ""
        return own if own and not self._is_installed(top) else ""

    def _is_installed(self, top: str) -> bool:
        """Whether a module is really installed, and does not just lie in this folder or the current one."""
        if top not in self._installed:
            try:
                found = importlib.util.find_spec(top)
            except (ImportError, ValueError, AttributeError):
                return True  # something odd of the program's own
            self._installed[top] = False
            if found is not None:
                origin = Path(found.origin or "")
                if not origin.is_absolute():  # built in, or a namespace package
                    origin = Path(next(iter(found.submodule_search_locations or ()), "/built-in/module"))
                elif origin.name == _INIT:
                    origin = origin.parent
                near = {Path(self.path), Path(self.path).parent}
                with suppress(OSError):  # the current folder may be gone
                    near.add(Path.cwd())
                self._installed[top] = origin.parent not in near
        return self._installed[top]

    def spec(self, name: str) -> ModuleSpec | None:
        """Where a module of the package is loaded from."""
        place = Path(self.path, *name.split(".")[1:])
        if (place / _INIT).is_file():
            return self._spec_of(name, str(place / _INIT), package=str(place))
        if place.with_name(f"{place.name}.py").is_file():
            return self._spec_of(name, f"{place}.py")
        if not place.is_dir():
            return None
        self._places.add(str(place))
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = [str(place)]
        return found

    def _spec_of(self, name: str, path: str, *, package: str | None = None) -> ModuleSpec:
        spec = ModuleSpec(name, _Loader(name, path, self), origin=path, is_package=package is not None)
        spec.has_location = True
        if package is not None:
            spec.submodule_search_locations = [package]
        return spec

    def source(self, path: str) -> bytes:
        """A file's content, as of the last look."""
        self._places.add(str(Path(path).parent))
        known = (self.sources or {}).get(path)
        if not isinstance(known, bytes):
            known = Path(path).read_bytes()
            if self.sources is not None:
                self.sources[path] = known
        return known

    def execute(self, module: ModuleType, path: str) -> None:
        """Run a module's code, with an `import` of its own."""
        name = module.__name__
        stack: list[str] = self._running.__dict__.setdefault("stack", [])
        if stack:
            self._note(stack[-1], name)  # also where `importlib.import_module` imports it
        with self._noting:
            self._imports[name] = set()
        vars(module)["__builtins__"] = self._builtins
        code = compile(self.source(path), path, "exec", dont_inherit=True)
        stack.append(name)
        try:
            exec(code, vars(module))  # noqa: S102 - what importing a file is
        finally:
            stack.pop()
        self._loaded[name] = _Loaded(module, path, next(self._done), self._imports[name])


class _Finder:
    """Finds the modules of every tools folder."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        folder = _packages.get(name.partition(".")[0])
        return folder.spec(name) if folder is not None else None


class _Loader(SourceFileLoader):
    """Loads from source alone: a cache could miss an edit within the same second, and would litter the folder."""

    def __init__(self, name: str, path: str, folder: ToolsFolder) -> None:
        super().__init__(name, path)
        self._folder = folder

    def exec_module(self, module: ModuleType) -> None:
        self._folder.execute(module, self.path)


def _execute(spec: ModuleSpec, module: ModuleType) -> None:
    if spec.loader is not None:
        spec.loader.exec_module(module)
