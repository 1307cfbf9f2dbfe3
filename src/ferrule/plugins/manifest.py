"""What a plugin says of itself before any of its code runs: its name, its tools by kind, and what it needs.

A wheel carries the table `[tool.ferrule.plugin]` of its `pyproject.toml` as `PACKAGE/ferrule-plugin.toml`. An MCP
server is described by a `server.json`, as the registry has it, or comes as an `.mcpb` bundle. All of it is written by
strangers: it is read within bounds, and what is wrong in it is named.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
import zipfile
from email.parser import BytesHeaderParser
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from ferrule import ErrorKind, ToolError
from ferrule.extension import Template, phrase
from ferrule.extension.hosting import wrong_text

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

PLUGIN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}(/[a-z0-9][a-z0-9._-]{0,99})?")
"""Small ASCII letters alone, so that no two names look alike through another script or another case."""
MANIFEST_FILE = "ferrule-plugin.toml"
_MOST_BYTES = 1_000_000
_PACKAGE = re.compile(r"(@[a-z0-9._-]+/)?[A-Za-z0-9][A-Za-z0-9._-]*")
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
OWN_VARIABLES = "FERRULE_"

_OWN_PLACE = re.compile(r"__dirname|HOME|/|pathSeparator|user_config\.[A-Za-z_]\w*")


def _plain_text(text: str) -> str:
    if (wrong := wrong_text(text)) is not None:
        raise ValueError(wrong)
    return text


def _no_place_of_the_users(text: str) -> str:
    """Servers are started with `${NAME}` filled in, from the user's variables and keyring: a stranger names only what
    is the plugin's own, and gets the rest by being granted it.
    """
    template = Template.parse(text)
    if not all(map(_OWN_PLACE.fullmatch, template.places)) or any("${" in one for one in template.literals):
        raise ValueError("only ${__dirname}, ${HOME} and ${user_config.NAME} may be named")
    return text


def _not_of_ferrule(name: str) -> str:
    if name.upper().startswith(OWN_VARIABLES):
        raise ValueError("variables of Ferrule itself are not given to plugins")
    return name


PluginName = Annotated[str, StringConstraints(pattern=rf"^{PLUGIN_NAME.pattern}$", max_length=200)]
PluginVersion = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!_-]{0,99}$")]
MaybeVersion = Annotated[str, StringConstraints(pattern=r"^(?:[A-Za-z0-9][A-Za-z0-9.+!_-]{0,99})?$")]
ShortText = Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_plain_text)]
StartText = Annotated[ShortText, AfterValidator(_no_place_of_the_users)]
"""What a stranger has a server started with."""
Variable = Annotated[str, StringConstraints(pattern=VARIABLE)]
GivenVariable = Annotated[Variable, AfterValidator(_not_of_ferrule)]
ToolKind = Literal["readonly", "write", "execute", "unknown"]
"""`unknown` where the author's form has no kinds, as that of MCP."""
PluginRuntime = Literal["ferrule", "python", "node", "binary", "remote"]


class PluginError(ToolError):
    """Something about a plugin is wrong: what, and what to do about it."""

    def __init__(self, message: str, *, suggestion: str | None = None) -> None:
        super().__init__(message, kind=ErrorKind.VALIDATION, suggestion=suggestion)


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Needs(_Declared):
    """What a plugin asks for beyond its own files; it gets what of it the user granted, and nothing else."""

    hosts: tuple[ShortText, ...] = ()
    folders: tuple[ShortText, ...] = ()
    """Each to be read, or with `:write` at its end to be written; `.` is the workspace."""
    secrets: tuple[GivenVariable, ...] = ()
    programs: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$")], ...] = ()
    """Names, never paths: a script of the user's own may hold passwords."""

    @field_validator("hosts")
    @classmethod
    def _hosts_can_be_held_to(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if hosts:
            from ferrule.extension.hosting import AllowedHosts

            AllowedHosts(hosts)
        return hosts


class PluginTool(_Declared):
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    kind: ToolKind = "unknown"
    summary: ShortText = ""


class PluginSetting(_Declared):
    """Something that its user can set."""

    summary: ShortText = ""
    default: StartText | None = None


class Manifest(_Declared):
    """Everything that a plugin declares, and how it is started."""

    name: PluginName
    version: MaybeVersion
    summary: ShortText = ""
    publisher: ShortText = ""
    ferrule: ShortText = ""
    """The versions of Ferrule that it works with, as `>=0.9,<2`; empty for any."""
    entry: StartText = ""
    """`module` or `module:attribute` of a wheel's tools."""
    tools: tuple[PluginTool, ...] = Field(default=(), max_length=1_000)
    needs: Needs = Needs()
    settings: dict[Variable, PluginSetting] = {}
    package: str = ""
    """The name of the package that it is, or comes in; empty for an `.mcpb` file."""
    requirement: str = ""
    """What is asked of a registry of packages, as `mcp-server-time==1.2`; empty for a file."""
    runtime: PluginRuntime = "ferrule"
    command: tuple[StartText, ...] = ()
    """Of a server: the words after its program; of a bundle the whole, with `${__dirname}` in it."""
    environment: dict[GivenVariable, StartText] = {}
    url: Annotated[ShortText, StringConstraints(pattern=r"^[^${}]*$")] = ""
    """Of a server elsewhere."""

    @property
    def short_name(self) -> str:
        """What it is called on this machine: of `com.example/weather` the last part."""
        return self.name.rpartition("/")[2]


def read_manifest(file_name: str, file: IO[bytes]) -> Manifest:
    """The declaration in a wheel or an `.mcpb` file."""
    reader = {".whl": _of_wheel, ".mcpb": _of_mcpb}.get(file_name[file_name.rfind(".") :])
    if reader is None:
        raise PluginError(phrase("it is neither a wheel (.whl) nor an .mcpb file"))
    try:
        with zipfile.ZipFile(file) as archive:
            return _validated(reader(archive))
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError) as error:
        raise PluginError(phrase("it is not a zip archive that can be read: {why}", why=error)) from None
    except (ValueError, TypeError, RecursionError) as error:  # TOML, JSON and text that is not UTF-8
        raise PluginError(phrase("its declaration cannot be read: {why}", why=error)) from None


def read_file(file: Path) -> Manifest:
    """The same of a file on this machine, which errors then name."""
    try:
        opened = open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: PTH123, SIM115 - no waiting
        with opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise PluginError(phrase("it is not a file"))
            return read_manifest(file.name, opened)
    except OSError as error:
        raise PluginError(phrase("{file} cannot be read: {why}.", file=file, why=error.strerror)) from None
    except PluginError as error:
        raise PluginError(phrase("`{file}` is not a plugin: {why}.", file=file.name, why=error.message)) from None


def read_project(text: str) -> Manifest:
    """What the `pyproject.toml` of a plugin declares; of `[project]` its name, version and description count too."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PluginError(phrase("its declaration cannot be read: {why}", why=error)) from None
    project = as_object(document.get("project"))
    kept = {"name": project.get("name"), "version": project.get("version"), "summary": project.get("description", "")}
    return _validated({**kept, **_table(document), "package": str(project.get("name") or "")})


def _validated(found: dict[str, Any]) -> Manifest:
    try:
        return Manifest.model_validate(found)
    except ValidationError as error:
        raise PluginError(phrase("its declaration is wrong: {where}", where=first_problem(error))) from None


def _table(document: dict[str, Any]) -> dict[str, Any]:
    table = document
    for key in ("tool", "ferrule", "plugin"):
        table = as_object(table.get(key))
    if not table:
        raise PluginError(phrase("{file} has no table [tool.ferrule.plugin]", file=MANIFEST_FILE))
    for own in ("package", "requirement", "runtime", "command", "environment", "url"):
        table.pop(own, None)
    return table


def _of_wheel(archive: zipfile.ZipFile) -> dict[str, Any]:
    declared = [one for one in archive.namelist() if one.count("/") == 1 and one.endswith(f"/{MANIFEST_FILE}")]
    headers = _headers(archive)
    if len(declared) != 1 or headers is None:
        raise PluginError(
            phrase("it needs one PACKAGE/{file} and one METADATA, and is no plugin without", file=MANIFEST_FILE)
        )
    package, version = str(headers["Name"] or ""), str(headers["Version"] or "")
    document: dict[str, Any] = tomllib.loads(_read(archive, declared[0]).decode())
    project = as_object(document.get("project"))
    kept = {"name": normal(package), "version": version, "summary": project.get("description", "")}
    found: dict[str, Any] = {**kept, **_table(document), "package": package}
    if found["version"] != version:
        raise PluginError(
            phrase("it says version {one}, and the wheel is {other}", one=found["version"], other=version)
        )
    return found


def wheel_requirements(file: Path) -> list[str]:
    """What a wheel depends on, without Ferrule itself, which is there already."""
    with zipfile.ZipFile(file) as archive:
        headers = _headers(archive)
    from packaging.requirements import InvalidRequirement, Requirement

    found: list[str] = []
    for one in headers.get_all("Requires-Dist", []) if headers is not None else []:
        try:
            wanted = Requirement(str(one))
        except InvalidRequirement:
            wanted = None
        if wanted is None or wanted.url:  # an option would be obeyed, and what lies at an address may be built
            raise PluginError(
                phrase(
                    "`{file}` requires `{what}`, which is not a name with versions.",
                    file=file.name,
                    what=str(one)[:200],
                )
            )
        if normal(wanted.name) != "ferrule" and not (wanted.marker and "extra" in str(wanted.marker)):
            found.append(str(wanted))
    return found


def _headers(archive: zipfile.ZipFile) -> Message | None:
    about = [one for one in archive.namelist() if one.count("/") == 1 and one.endswith(".dist-info/METADATA")]
    return BytesHeaderParser().parsebytes(_read(archive, about[0])) if len(about) == 1 else None


# MCP servers


def read_server_json(document: Any) -> Manifest:
    """A server as the registry describes it: its first package that runs here on standard streams, or its address."""
    server = as_object(document)
    if not server.get("name"):
        raise PluginError(phrase("It describes no MCP server: it has no name."))
    about = {
        "name": str(server.get("name", "")).lower(),
        "version": server.get("version", ""),
        "summary": str(server.get("description") or "")[:2_000],
        "publisher": str(server.get("name", "")).rpartition("/")[0],
    }
    for package in map(as_object, _list(server.get("packages"))):
        kind, identifier = package.get("registryType"), str(package.get("identifier", ""))
        stdio = as_object(package.get("transport")).get("type", "stdio") == "stdio"
        if not stdio or kind not in ("pypi", "npm") or not _PACKAGE.fullmatch(identifier):
            continue
        version = str(package.get("version") or about["version"])
        environment, secrets = _variables(package)
        return _validated({
            **about,
            "version": version,
            "runtime": "python" if kind == "pypi" else "node",
            "package": identifier,
            "requirement": f"{identifier}{'==' if kind == 'pypi' else '@'}{version}" if version else identifier,
            "command": _arguments(package),
            "environment": environment,
            "needs": {"secrets": secrets},
        })  # fmt: skip
    for remote in map(as_object, _list(server.get("remotes"))):
        url = str(remote.get("url", ""))
        if remote.get("type") == "streamable-http" and url.startswith("https://"):
            return _validated({**about, "runtime": "remote", "url": url})
    raise PluginError(
        phrase("`{name}` has no package from PyPI or npm that speaks on standard streams.", name=about["name"])
    )


def _arguments(package: dict[str, Any]) -> list[str]:
    """What of its arguments is fixed or has a default; what only its user knows is left to them."""
    words: list[str] = []
    for argument in map(as_object, _list(package.get("packageArguments"))):
        value = str(argument.get("value") or argument.get("default") or "")
        if argument.get("type") == "named" and (value or not argument.get("isRequired")):
            words.append(str(argument.get("name", "")))
        if value:
            words.append(value)
    return words


def _variables(package: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    given: dict[str, str] = {}
    secrets: list[str] = []
    for variable in map(as_object, _list(package.get("environmentVariables"))):
        name, value = str(variable.get("name", "")), str(variable.get("value") or variable.get("default") or "")
        if variable.get("isSecret") or (variable.get("isRequired") and not value):
            secrets.append(name)
        elif value:
            given[name] = value
    return given, secrets


def _of_mcpb(archive: zipfile.ZipFile) -> dict[str, Any]:
    if "manifest.json" not in archive.namelist():
        raise PluginError(phrase("it has no manifest.json"))
    found = as_object(json.loads(_read(archive, "manifest.json")))
    server = as_object(found.get("server"))
    config = as_object(server.get("mcp_config"))
    if server.get("type") not in ("node", "python", "binary") or not config.get("command"):
        raise PluginError(
            phrase("its declaration has no server with a type (node, python, binary) and an mcp_config with a command")
        )
    wanted = {name: as_object(one) for name, one in as_object(found.get("user_config")).items()}
    return {
        "name": str(found.get("name", "")).lower(),
        "version": found.get("version"),
        "summary": str(found.get("description") or "")[:2_000],
        "publisher": as_object(found.get("author")).get("name", ""),
        "tools": [
            {"name": one.get("name"), "summary": str(one.get("description") or "").partition("\n")[0][:2_000]}
            for one in map(as_object, cast("list[Any]", found.get("tools") or []))
        ],
        "runtime": server["type"],
        "command": [config["command"], *_list(config.get("args"))],
        "environment": as_object(config.get("env")),
        "needs": {"secrets": [name for name, one in wanted.items() if one.get("sensitive") is True]},
        "settings": {
            name: {
                "summary": str(one.get("description") or one.get("title") or "")[:2_000],
                "default": str(one["default"]) if isinstance(one.get("default"), (str, int, float)) else None,
            }
            for name, one in wanted.items()
            if one.get("sensitive") is not True
        },
    }


# Common to all


def normal(name: str) -> str:
    """A package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def as_object(value: Any) -> dict[str, Any]:
    """A JSON object or a TOML table; what is none has no fields."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member, never more of it than it may have, whatever the archive says of its size."""
    with archive.open(name) as member:
        data = member.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise PluginError(phrase("{file} in it has more than {most} bytes", file=name, most=f"{_MOST_BYTES:,}"))
    return data


def first_problem(error: ValidationError) -> str:
    """Where the first thing is wrong, and how."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"`{where}`: {first['msg']}" if where else first["msg"]


def fits_ferrule(wanted: str, version: str) -> bool:
    """Whether a version of Ferrule is in a range such as `>=0.9,<2`; raises `PluginError` where it cannot be read."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(wanted).contains(version, prereleases=True)
    except InvalidSpecifier:
        raise PluginError(phrase("`{wanted}` is not a version range.", wanted=wanted[:100])) from None
