"""What a plugin says of itself: its name, its tools by kind, and what it needs, read from a wheel or an `.mcpb` file.

A wheel carries the table `[tool.ferrule.plugin]` of its `pyproject.toml` as `PACKAGE/ferrule-plugin.toml`. An `.mcpb`
file has a `manifest.json`, which knows no kinds. Only the file's text is read; nothing in it runs.
"""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from email.parser import BytesHeaderParser
from typing import IO, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase

PLUGIN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}(/[a-z0-9][a-z0-9._-]{0,99})?")
"""Small ASCII letters alone, so that no two names look alike through another script or another case."""
MANIFEST_FILE = "ferrule-plugin.toml"
_MOST_BYTES = 1_000_000

PluginName = Annotated[str, StringConstraints(pattern=rf"^{PLUGIN_NAME.pattern}$", max_length=200)]
PluginVersion = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!_-]{0,99}$")]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]
ToolKind = Literal["readonly", "write", "execute", "unknown"]
"""`unknown` where the author's form has no kinds, as that of MCP."""


class Needs(BaseModel):
    """What a plugin asks for beyond its own files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: tuple[ShortText, ...] = ()
    folders: tuple[ShortText, ...] = ()
    secrets: tuple[ShortText, ...] = ()
    programs: tuple[ShortText, ...] = ()


class PluginTool(BaseModel):
    """A tool as its plugin declares it."""

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    kind: ToolKind = "unknown"
    summary: ShortText = ""


class Manifest(BaseModel):
    """Everything that a plugin declares."""

    model_config = ConfigDict(frozen=True)

    name: PluginName
    version: PluginVersion
    summary: ShortText = ""
    publisher: ShortText = ""
    ferrule: ShortText = ""
    entry: ShortText = ""
    tools: tuple[PluginTool, ...] = ()
    needs: Needs = Needs()
    package: str = ""
    """The name of the wheel's distribution; empty for an `.mcpb` file."""


class ManifestError(ToolError):
    """A file is not a plugin, or its declaration is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=ErrorKind.VALIDATION)


def read_manifest(file_name: str, file: IO[bytes]) -> Manifest:
    """The declaration in a wheel or an `.mcpb` file."""
    reader = {".whl": _of_wheel, ".mcpb": _of_mcpb}.get(file_name[file_name.rfind(".") :])
    if reader is None:
        raise ManifestError(phrase("it is neither a wheel (.whl) nor an .mcpb file"))
    try:
        with zipfile.ZipFile(file) as archive:
            return Manifest.model_validate(reader(archive))
    except ValidationError as error:
        raise ManifestError(phrase("its declaration is wrong: {where}", where=first_problem(error))) from None
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError) as error:
        raise ManifestError(phrase("it is not a zip archive that can be read: {why}", why=error)) from None
    except (ValueError, TypeError, RecursionError) as error:  # TOML, JSON and text that is not UTF-8
        raise ManifestError(phrase("its declaration cannot be read: {why}", why=error)) from None


def _of_wheel(archive: zipfile.ZipFile) -> dict[str, Any]:
    names = archive.namelist()
    declared = [one for one in names if one.count("/") == 1 and one.endswith(f"/{MANIFEST_FILE}")]
    about = [one for one in names if one.count("/") == 1 and one.endswith(".dist-info/METADATA")]
    if len(declared) != 1 or len(about) != 1:
        raise ManifestError(
            phrase("it needs one PACKAGE/{file} and one METADATA, and is no plugin without", file=MANIFEST_FILE)
        )
    headers = BytesHeaderParser().parsebytes(_read(archive, about[0]))
    package, version = str(headers["Name"] or ""), str(headers["Version"] or "")
    table: dict[str, Any] = tomllib.loads(_read(archive, declared[0]).decode())
    for key in ("tool", "ferrule", "plugin"):
        table = as_object(table.get(key))
    if not table:
        raise ManifestError(phrase("{file} has no table [tool.ferrule.plugin]", file=MANIFEST_FILE))
    found: dict[str, Any] = {"version": version, **table, "package": package}
    if found["version"] != version:
        raise ManifestError(
            phrase("it says version {one}, and the wheel is {other}", one=found["version"], other=version)
        )
    return found


def _of_mcpb(archive: zipfile.ZipFile) -> dict[str, Any]:
    if "manifest.json" not in archive.namelist():
        raise ManifestError(phrase("it has no manifest.json"))
    found = as_object(json.loads(_read(archive, "manifest.json")))
    return {
        "name": found.get("name"),
        "version": found.get("version"),
        "summary": found.get("description", ""),
        "publisher": as_object(found.get("author")).get("name", ""),
        "tools": [
            {"name": one.get("name"), "summary": one.get("description", "")}
            for one in map(as_object, cast("list[Any]", found.get("tools") or []))
        ],
    }


def as_object(value: Any) -> dict[str, Any]:
    """A JSON object or a TOML table; what is none has no fields."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member, never more of it than it may have, whatever the archive says of its size."""
    with archive.open(name) as member:
        data = member.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ManifestError(phrase("{file} in it has more than {most} bytes", file=name, most=f"{_MOST_BYTES:,}"))
    return data


def first_problem(error: ValidationError) -> str:
    """Where the first thing is wrong, and how."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"`{where}`: {first['msg']}" if where else first["msg"]
