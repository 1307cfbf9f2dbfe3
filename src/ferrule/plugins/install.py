"""Puts a plugin on this machine: found, fetched and locked to the hash, in an environment of its own, and not started.

No code of a package runs here. Of Python packages only wheels are taken, because building one runs code before anybody
has agreed to it; npm runs no scripts; and bundles are only unpacked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from ferrule import __version__
from ferrule.extension import OwnedFolder, phrase, read_given
from ferrule.extension.hosting import CommandLine, ProgramWords, shown_argument
from ferrule.plugins.installed_files import file_digest, tree_digest
from ferrule.plugins.lock import LockedPackage, LockedPlugin, changing_lock
from ferrule.plugins.manifest import (
    Manifest,
    PluginError,
    as_object,
    first_problem,
    fits_ferrule,
    normal,
    read_file,
    read_server_json,
    wheel_requirements,
)
from ferrule.plugins.plugin_files import lock_file, plugins_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from ferrule.plugins.offers import OfferedFile, PluginOffer

_SECONDS = 600
_MOST_UNPACKED = 2 << 30
_MOST_FETCHED = 512 << 20
_MOST_MEMBERS = 50_000
_VENV, _MODULES, _BUNDLE, _FILES = "venv", "node_modules", "bundle", "files"
_NPM_RANGE = re.compile(r"(npm:(@[\w.~-]+/)?[\w.~-]+(@[^/:]*)?)?[^/:]*")
"""Versions or a tag, also of a package under another name; anything with an address or a folder is not."""
_BY_NOBODY = phrase("None: it was installed from a file.")
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")


@dataclass(slots=True, frozen=True)
class FoundPlugin:
    """A plugin that can be installed: what is known of it before, and its file where it is one."""

    plugin: LockedPlugin
    file: Path | None = None
    sha256: str = ""
    """What the file must have, where somebody vouches for it."""

    @property
    def manifest(self) -> Manifest:
        return self.plugin.manifest


def find_local(source: str) -> FoundPlugin | None:
    """A wheel, a bundle or a `server.json` on this machine, or a package of a registry; None for a name of a market."""
    if source.startswith(("pypi:", "npm:")):
        return _package(source)
    file = Path(source).expanduser()
    if file.suffix in (".whl", ".mcpb"):
        return FoundPlugin(LockedPlugin(read_file(file), str(file.absolute()), _BY_NOBODY), file)
    if file.suffix == ".json":
        try:
            document = json.loads(read_given(file))
            return FoundPlugin(LockedPlugin(read_server_json(document), str(file.absolute()), _BY_NOBODY))
        except OSError as error:
            raise PluginError(phrase("{file} cannot be read: {why}.", file=file, why=error.strerror)) from None
        except (ValueError, RecursionError) as error:
            raise PluginError(phrase("{file} is not valid JSON: {why}.", file=file, why=error)) from None
    if file.suffix in (".gz", ".zip", ".tar") or file.is_dir():
        raise PluginError(
            phrase("`{file}` is source code, and building it would run code that nobody has agreed to.", file=file),
            # As a word that no program takes for a name of a registry, or for an option.
            suggestion=phrase(
                "Build a wheel of it yourself: pip wheel --no-deps {file}",
                file=shown_argument(str(file) if file.is_absolute() else f"./{file}"),
            ),
        )
    return None


def _package(source: str) -> FoundPlugin:
    kind, _, package = source.partition(":")
    python = kind == "pypi"
    if python:
        name, _, version = package.partition("==")
    else:
        name, _, version = package[1:].partition("@")
        name = package[:1] + name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*" if python else r"(@[a-z0-9._-]+/)?[a-z0-9._-]+", name):
        raise PluginError(phrase("`{name}` is not a package name.", name=package))
    try:
        manifest = Manifest(
            name=normal(name.rpartition("/")[2]),
            version=version,
            runtime="python" if python else "node",
            package=name,
            requirement=package,
        )
    except ValidationError as error:
        raise PluginError(phrase("`{name}`: {why}.", name=package, why=first_problem(error))) from None
    registry = "PyPI" if python else "npm"
    proof = phrase("The account that owns `{name}` on {registry}; no signature.", name=name, registry=registry)
    return FoundPlugin(LockedPlugin(manifest, source, proof))


@contextmanager
def find_offered(name: str, market: str | None, note: Callable[[str], object]) -> Generator[FoundPlugin]:
    """What a market offers under a name, or `NAME==VERSION`, with its file here for as long as the block runs."""
    from ferrule.plugins.market import fetch
    from ferrule.plugins.offers import find_offer, refresh_for_install

    wanted, _, version = name.partition("==")
    refresh_for_install(market, note)
    offer = find_offer(wanted, version or None, market, note=note, fresh=True)
    if offer.withdrawn is not None:
        raise PluginError(
            phrase("`{name}` {version} was withdrawn: {why}.", name=offer.name, version=offer.version,
                   why=offer.withdrawn.reason.rstrip("."))
        )  # fmt: skip
    locked = partial(
        LockedPlugin,
        source=f"{offer.market}:{offer.name}",
        proof=offer.proof,
        published=offer.published_at.date().isoformat() if offer.published_at else "",
        market=offer.market,
        release=offer.version,
    )
    if not offer.files:
        yield FoundPlugin(locked(read_server_json(offer.server)))
        return
    offered = _fitting(offer)
    with OwnedFolder(plugins_folder(), prefix=".new-") as folder:
        file = folder.path / (Path(urlsplit(offered.url).path).name or "plugin.mcpb")
        file.write_bytes(fetch(offered.url, offered.size or _MOST_FETCHED, _SECONDS))
        if not offered.sha256:
            raise PluginError(phrase("The file of `{name}` has no hash in {market}, so it is not installed.",
                                     name=offer.name, market=offer.market))  # fmt: skip
        here = FoundPlugin(locked(read_file(file)), file, offered.sha256)
        _require_fit(here)
        said = here.manifest
        if offer.from_registry:  # it knows nothing of tools and needs, and a bundle nothing of the registry's names
            here = replace(here, plugin=locked(_changed(said, name=offer.name.lower(), version=offer.version)))
        elif (offer.name, offer.version, offer.kinds, offer.needs) != (
            said.name, said.version, {one.name: one.kind for one in said.tools}, said.needs
        ):  # fmt: skip
            raise PluginError(
                phrase("`{name}` is not what the market says of it: its tools or its needs differ.", name=offer.name),
                suggestion=phrase("Nothing was installed. Tell the market's publisher."),
            )
        yield here


def _fitting(offer: PluginOffer) -> OfferedFile:
    """Of the files of a plugin the one that fits this platform and Python best; what is not a wheel fits everywhere."""
    from packaging.tags import sys_tags
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    best = {tag: rank for rank, tag in enumerate(sys_tags())}
    ranked: list[tuple[int, OfferedFile]] = []
    names = [unquote(urlsplit(one.url).path).rpartition("/")[2] for one in offer.files]
    for name, one in zip(names, offer.files, strict=True):
        try:
            tags = parse_wheel_filename(name)[3]
        except InvalidWheelFilename:
            ranked.append((len(best), one))
        else:
            ranked += [(min(best[tag] for tag in tags & best.keys()), one)] if tags & best.keys() else []
    if not ranked:
        raise PluginError(
            phrase("No file of `{name}` {version} fits this platform and Python: {files}.", name=offer.name,
                   version=offer.version, files=", ".join(names)),
            suggestion=phrase("Ask its publisher for one, or install another version."),
        )  # fmt: skip
    return min(ranked, key=lambda one: one[0])[1]


def newest_source(plugin: LockedPlugin) -> tuple[str, str | None]:
    """Where a newer version of it would be: without the version that it was pinned to, and its market."""
    if plugin.market:
        return plugin.source.partition(":")[2], plugin.market
    if plugin.source.startswith(("pypi:", "npm:")):
        return f"{plugin.source.partition(':')[0]}:{plugin.manifest.package}", None
    return plugin.source, None


@contextmanager
def fetched(found: FoundPlugin) -> Generator[StagedPlugin]:
    """All that a plugin needs, fetched and locked, to be looked at and put in its place; raises `PluginError`."""
    plugins_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    with OwnedFolder(plugins_folder(), prefix=".new-") as making:
        found = _copied(found, making.path)
        _require_fit(found)
        program = making.path / "program"
        program.mkdir()
        manifest, packages = _packages(found, program)
        today = datetime.now(UTC).date().isoformat()
        plugin = replace(found.plugin, manifest=manifest, packages=packages, tree=tree_digest(program), installed=today)
        yield StagedPlugin(replace(plugin, proof=str(plugin.proof)), making.path)


def _copied(found: FoundPlugin, folder: Path) -> FoundPlugin:
    """With a file that nobody else can change any more, and that says what was read of it."""
    if found.file is None:
        return found
    file = folder / found.file.name
    try:
        shutil.copyfile(found.file, file)
    except OSError as error:
        raise PluginError(phrase("{file} cannot be read: {why}.", file=found.file, why=error.strerror)) from None
    said = read_file(file)
    if said.model_copy(update={"name": found.manifest.name, "version": found.manifest.version}) != found.manifest:
        raise PluginError(phrase("{file} was changed while it was installed.", file=found.file))
    return replace(found, file=file)


@dataclass(slots=True)
class StagedPlugin:
    """A plugin beside the place where it would be installed. What is put there can be taken back."""

    plugin: LockedPlugin
    making: Path
    before: LockedPlugin | None = None

    def merged(self, before: LockedPlugin | None) -> LockedPlugin:
        """With what an earlier one was granted and set to, which counts once it is agreed to. Raises `PluginError`
        where that one is another plugin.
        """
        self.before = before
        if before is None:
            return self.plugin
        if _origin(before) != _origin(self.plugin):
            raise PluginError(
                phrase("There is another plugin `{name}` already, from {source}.", name=before.name,
                       source=before.source),
                suggestion=phrase("Remove it first: ferrule plugin remove {name}", name=before.name),
            )  # fmt: skip
        return replace(self.plugin, grants=before.grants, settings=before.settings, arguments=before.arguments)

    def put(self) -> LockedPlugin:
        """Install it, disabled."""
        with changing_lock() as plugins:
            self.plugin = self.merged(plugins.get(self.plugin.name))
            plugin, old = self.plugin, self.making / "old"
            plugin.folder.mkdir(exist_ok=True, mode=0o700)
            plugin.home.mkdir(exist_ok=True, mode=0o700)
            if plugin.program_folder.exists():
                plugin.program_folder.rename(old)
            try:
                (self.making / "program").rename(plugin.program_folder)
            except OSError:
                if old.exists():
                    old.rename(plugin.program_folder)
                raise
            plugins[plugin.name] = plugin
        return plugin

    def take_back(self) -> None:
        """What was there before is there again."""
        if self.before is None:
            remove(self.plugin)
            return
        with changing_lock() as plugins:
            self.plugin.program_folder.rename(self.making / "unwanted")
            (self.making / "old").rename(self.plugin.program_folder)
            plugins[self.before.name] = self.before


def _origin(plugin: LockedPlugin) -> tuple[str, ...]:
    """Who it is, whatever its version: only the same one gets what was granted to it, and its home."""
    manifest = plugin.manifest
    return manifest.name, plugin.market, manifest.runtime, manifest.package, manifest.url


def _require_fit(found: FoundPlugin) -> None:
    if found.manifest.short_name == lock_file().name:
        raise PluginError(phrase("`{name}` cannot name a plugin.", name=found.manifest.name))
    wanted = found.manifest.ferrule
    if wanted and not fits_ferrule(wanted, __version__):
        raise PluginError(
            phrase("`{name}` works with Ferrule {wanted}; this is {version}.",
                   name=found.manifest.name, wanted=wanted, version=__version__),
            suggestion=phrase("Install another version of one of them."),
        )  # fmt: skip
    if found.file is not None and found.sha256 and (got := file_digest(found.file)) != found.sha256:
        raise PluginError(
            phrase("The file of `{name}` is not the one that was published: its hash is {got} instead of {wanted}.",
                   name=found.manifest.name, got=got[:16], wanted=found.sha256[:16]),
            suggestion=phrase("Nothing was installed. Tell the market's publisher."),
        )  # fmt: skip


def _packages(found: FoundPlugin, program: Path) -> tuple[Manifest, tuple[LockedPackage, ...]]:
    manifest = found.manifest
    if manifest.runtime == "remote":
        return manifest, ()
    if manifest.runtime == "ferrule" and found.file is not None:
        _require_bounded(found.file)
        own = _kept(found.file, program)
        return manifest, (own, *_python_packages(program, wheel_requirements(found.file), [own]))
    if manifest.runtime == "python" and manifest.requirement:
        packages = _python_packages(program, [manifest.requirement], [])
        return _with_command(manifest, program, packages), packages
    if manifest.runtime == "node" and manifest.requirement:
        return _node_packages(manifest, program)
    if found.file is not None:
        own = _kept(found.file, program, copy=False)
        try:
            _unpack(found.file, program / _BUNDLE)
        except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, ValueError, EOFError) as error:
            raise PluginError(phrase("`{file}` cannot be unpacked: {why}.", file=found.file.name, why=error)) from None
        return manifest, (own,)
    raise PluginError(phrase("`{name}` has nothing to install.", name=manifest.name))


def _kept(file: Path, program: Path, *, copy: bool = True) -> LockedPackage:
    """A file as a package, copied to where it is installed from."""
    if copy:
        (program / _FILES).mkdir(exist_ok=True)
        shutil.copyfile(file, program / _FILES / file.name)
    name, version = [*file.name.split("-"), ""][:2]
    return LockedPackage(name, version, (f"sha256:{file_digest(file)}",), file.name)


def remove(plugin: LockedPlugin) -> None:
    """Whatever belongs to it."""
    with changing_lock() as plugins:
        plugins.pop(plugin.name, None)
    gone = plugins_folder() / f".old-{plugin.name}"
    shutil.rmtree(gone, ignore_errors=True)
    if plugin.folder.exists():
        plugin.folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


# Python


def python_of(program: Path) -> Path:
    return program / _VENV / "bin" / "python"


def _python_packages(
    program: Path, requirements: Sequence[str], files: Sequence[LockedPackage]
) -> tuple[LockedPackage, ...]:
    """An environment with these packages and all that they need, and what was locked; `files` are not in that."""
    import venv

    venv.EnvBuilder(symlinks=True, with_pip=False).create(program / _VENV)
    uv, python = _installer(), python_of(program)
    packages = _locked(uv, requirements, python) if requirements else ()
    lines = [f"{one.name}=={one.version} {' '.join(f'--hash={each}' for each in one.hashes)}" for one in packages]
    lines += [f"{(program / _FILES / one.file).as_uri()} --hash={one.hashes[0]}" for one in files]
    if lines:
        _install(uv, lines, python)
    return packages


_QUIETLY = ProgramWords("--quiet", "--disable-pip-version-check", "--no-input")
_FROM_LOCK = ProgramWords("--require-hashes", "--no-deps", "--only-binary", ":all:")
_ONLY_WHEELS = """
import pip._internal.cli.req_command as command
from pip._internal.exceptions import InstallationError
made = command.install_req_from_req_string
def only_names(text, *given, **named):
    found = made(text, *given, **named)
    if found.link is not None or found.editable:
        raise InstallationError(f"{text} is not a name with versions, and could be source code that is built")
    return found
command.install_req_from_req_string = only_names
from pip._internal.cli.main import main
import sys
sys.exit(main(sys.argv[1:]))
"""
"""pip builds what a dependency names by its address, whatever `--only-binary` says: building runs code."""


def _installer() -> str | None:
    """The program of uv, which is quicker; None for the pip that comes with Python."""
    from importlib.util import find_spec

    uv = shutil.which("uv")
    if uv is None and find_spec("pip") is None:
        raise PluginError(
            phrase("Installing a plugin needs uv or pip, and neither is there."),
            suggestion=phrase("Install uv, or run: python -m ensurepip"),
        )
    return uv


def _locked(uv: str | None, requirements: Sequence[str], python: Path) -> tuple[LockedPackage, ...]:
    """All that these packages come to, with their hashes."""
    if uv is None:
        # In this very Python, which is the plugin's too, so that nothing but wheels is looked at.
        words = ProgramWords("-P").option("-c", _ONLY_WHEELS, "install").add(_QUIETLY)
        words.add(ProgramWords("--dry-run", "--ignore-installed", "--report", "-", "--only-binary", ":all:"))
        report: dict[str, Any] = json.loads(_run(words.operand(*requirements).line(sys.executable), python.parent))
        found = [(one["metadata"], one["download_info"]["archive_info"]["hashes"]) for one in report["install"]]
        return tuple(LockedPackage(one["name"], one["version"], (f"sha256:{by['sha256']}",)) for one, by in found)
    with _requirements(requirements) as file:
        words = ProgramWords("pip", "compile", "--quiet").option("--python", str(python))
        words.add(ProgramWords("--generate-hashes", "--only-binary", ":all:", "--no-header", "--no-annotate"))
        done = _run(words.operand(file).line(uv), python.parent)
    pinned = ((_PINNED.match(line.strip()), line) for line in done.replace("\\\n", " ").splitlines())
    hashed = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
    return tuple(LockedPackage(found[1], found[2], (*hashed.findall(line),)) for found, line in pinned if found)


def _install(uv: str | None, lines: Sequence[str], python: Path) -> None:
    with _requirements(lines) as file:
        if uv is None:
            words = ProgramWords("-P", "-m", "pip").option("--python", str(python)).operand("install").add(_QUIETLY)
        else:
            words = ProgramWords("pip", "install", "--quiet").option("--python", str(python))
        _run(words.add(_FROM_LOCK).option("-r", file).line(uv or sys.executable), python.parent)
    if uv is not None:
        # Not by uv, whose compiler is the plugin's own Python: files of packages (`*.pth`) run when that starts.
        words = ProgramWords("-I", "-S", "-m", "compileall", "-qq", "-j", "2").operand(str(python.parents[1] / "lib"))
        _run(words.line(sys.executable), python.parent, may_fail=True)


@contextmanager
def _requirements(lines: Sequence[str]) -> Generator[str]:
    """A file with these lines, which is a stream of options too, while the block runs."""
    for one in lines:
        if one.startswith("-") or not one.isprintable():
            raise PluginError(phrase("`{what}` is not a name with versions.", what=one[:200]))
    opened, path = tempfile.mkstemp(suffix=".txt", prefix="ferrule-")
    try:
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.writelines(f"{one}\n" for one in lines)
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


def _with_command(manifest: Manifest, program: Path, packages: Sequence[LockedPackage]) -> Manifest:
    """How a server from PyPI is started: by the command that its package installs."""
    wanted = manifest.package
    version = next((one.version for one in packages if normal(one.name) == normal(wanted)), manifest.version)
    scripts = _scripts(program, wanted)
    by_name = {normal(name): value for name, value in scripts.items()}
    chosen = by_name.get(normal(wanted)) or (next(iter(scripts.values())) if len(scripts) == 1 else None)
    if chosen is None:
        raise PluginError(
            phrase("The package `{name}` installs no command of its name, so it is not an MCP server.", name=wanted)
        )
    module, _, attribute = chosen.partition(":")
    code = f"import sys; from {module} import {attribute} as run; sys.argv[0] = {wanted!r}; sys.exit(run())"
    return _changed(manifest, version=version, entry=code)


def _changed(manifest: Manifest, **fields: str) -> Manifest:
    """With what a package says of itself, which is held to the same rules."""
    try:
        return Manifest.model_validate({**manifest.model_dump(), **fields})
    except ValidationError as error:
        raise PluginError(phrase("`{name}`: {why}.", name=manifest.name, why=first_problem(error))) from None


def _scripts(program: Path, package: str) -> dict[str, str]:
    """The commands of an installed package, and what each runs."""
    from importlib.metadata import distributions

    site = next((program / _VENV / "lib").glob("python3*/site-packages"))
    for one in distributions(path=[str(site)]):
        if normal(str(one.metadata["Name"] or "")) == normal(package):
            return {
                point.name: point.value
                for point in one.entry_points
                if point.group == "console_scripts" and re.fullmatch(r"[\w.]+:\w+", point.value)
            }
    return {}


# npm


def _node_packages(manifest: Manifest, program: Path) -> tuple[Manifest, tuple[LockedPackage, ...]]:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise PluginError(
            phrase("`{name}` comes from npm, and npm or Node is not installed.", name=manifest.name),
            suggestion=phrase("Install Node, which brings npm."),
        )
    (program / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    options = ProgramWords("--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--loglevel=error")
    options.option("--prefix", str(program))
    # What npm starts itself, to make a package of a repository, obeys variables and not its options.
    apart = {"npm_config_ignore_scripts": "true", "npm_config_git": "/nonexistent"}
    lock = ProgramWords("install", "--package-lock-only").add(options).operand(manifest.requirement)
    _run(lock.line(npm), program, variables=apart)
    packages = _locked_by_npm(program)
    _run(ProgramWords("ci").add(options).line(npm), program, variables=apart)
    name = manifest.package
    described = as_object(json.loads((program / _MODULES / name / "package.json").read_bytes()))
    bins: Any = described.get("bin")
    if isinstance(bins, dict) and bins:
        by_name = cast("dict[str, str]", bins)
        bins = by_name.get(name.rpartition("/")[2]) or next(iter(by_name.values()))
    if not isinstance(bins, str):
        raise PluginError(phrase("The package `{name}` has no command, so it is not an MCP server.", name=name))
    script = program / _MODULES / name / bins
    if not script.resolve().is_relative_to((program / _MODULES).resolve()):
        raise PluginError(phrase("The command of `{name}` lies outside of its package.", name=name))
    entry = str(script.relative_to(program))
    return _changed(manifest, version=str(described.get("version", "")), entry=entry), packages


def _locked_by_npm(program: Path) -> tuple[LockedPackage, ...]:
    """Every package that npm would fetch; raises `PluginError` for one that is not a registry's, with its hash."""
    listed = as_object(as_object(json.loads((program / "package-lock.json").read_bytes())).get("packages"))
    packages: list[LockedPackage] = []
    for path, one in ((path, as_object(one)) for path, one in listed.items() if path):
        name = path.rpartition(f"{_MODULES}/")[2]
        needs = {**as_object(one.get("dependencies")), **as_object(one.get("optionalDependencies")),
                 **as_object(one.get("peerDependencies"))}  # fmt: skip
        for wanted, where in needs.items():
            if not _NPM_RANGE.fullmatch(str(where)):
                raise PluginError(
                    phrase("`{name}` requires `{what}`, which is not a name with versions.", name=name,
                           what=f"{wanted}@{where}"[:200])
                )  # fmt: skip
        if not one.get("integrity") or one.get("link"):
            raise PluginError(phrase("The package `{name}` has no hash, so it is not installed.", name=name))
        packages.append(LockedPackage(name, str(one.get("version", "")), (str(one["integrity"]),)))
    return tuple(packages)


# Bundles


def _require_bounded(file: Path) -> None:
    """By what the archive says of itself: no installer unpacks more of a member than that."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        raise PluginError(phrase("`{file}` holds too many files.", file=file.name))
    if sum(one.file_size for one in members) > _MOST_UNPACKED:
        raise PluginError(phrase("`{file}` is too large when unpacked.", file=file.name))


def _unpack(file: Path, folder: Path) -> None:
    """What a bundle holds, where it says so and nowhere else; links and special files are refused."""
    folder.mkdir()
    _require_bounded(file)
    left = _MOST_UNPACKED
    with zipfile.ZipFile(file) as members:
        for one in members.infolist():
            mode = one.external_attr >> 16
            target = folder / one.filename
            kind = mode & 0o170000
            if not target.resolve().is_relative_to(folder.resolve()) or kind not in (0, 0o100000, 0o040000):
                raise PluginError(
                    phrase("`{file}` is refused: `{name}` in it leads elsewhere.", file=file.name, name=one.filename)
                )
            if one.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with members.open(one) as opened, target.open("wb") as made:
                while piece := opened.read(1 << 20):
                    left -= len(piece)
                    if left < 0:
                        raise PluginError(phrase("`{file}` is too large when unpacked.", file=file.name))
                    made.write(piece)
            target.chmod(0o755 if mode & 0o111 else 0o644)


# Package managers


def _run(
    command: CommandLine, folder: Path, *, may_fail: bool = False, variables: Mapping[str, str] | None = None
) -> str:
    """What a package manager prints; raises `PluginError` with its own words where it fails.

    It runs in a folder of the plugin's: in the workspace it would obey settings and import modules from there.
    """
    # How strict a user is with warnings is about their own programs.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    try:
        done = subprocess.run(  # noqa: S603 - a package manager, with names that were checked
            command, cwd=folder, env={**environment, **(variables or {})}, capture_output=True, text=True,
            timeout=_SECONDS, stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PluginError(
            phrase("{program} did not end within {seconds} s.", program=Path(command[0]).name, seconds=_SECONDS)
        ) from None
    except OSError as error:
        raise PluginError(
            phrase("{program} cannot be started: {why}.", program=command[0], why=error.strerror or str(error))
        ) from None
    if done.returncode != 0 and not may_fail:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        told = [line for line in lines if re.match(r"(ERROR|error|npm error|×|╰|Because)", line)] or lines
        why = " ".join(told[:4])[:1_000] or "it did not say why"
        raise PluginError(phrase("The packages cannot be installed: {why}", why=why))
    return done.stdout
