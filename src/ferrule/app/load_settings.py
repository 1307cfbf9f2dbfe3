"""Reads settings from their sources, in order, and refuses what a workspace may not decide for the person."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.app.locations import PROJECT_FILE, organisation_settings_file, user_settings_file
from ferrule.app.settings import (
    HookSettings,
    McpServerSettings,
    ProviderSettings,
    RuleTable,
    Settings,
    SourcedRule,
    SourcedServer,
)
from ferrule.core.phrases import phrase
from ferrule.workspace.given_files import read_given

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_ENVIRONMENT = "FERRULE_"
_THE_PERSONS = ("hooks", "audit", "trusted_folders", "trusted_mcp_servers", "model", "providers", "service")
_OF_A_LIST = {"hooks": HookSettings, "providers": ProviderSettings, "mcp_servers": McpServerSettings}
_OTHER_VARIABLES = {"FERRULE_CONFIG", "FERRULE_DATA", "FERRULE_MCP_TOKEN", "FERRULE_PYTHON", "FERRULE_TEST_JOBS"}
# From the most that runs without asking to the least.
_RULES = ("allow", "ask", "deny")
_MODES = ("bypass", "accept-edits", "default", "dont-ask", "plan")
_ADD_UP = (*_RULES, "disabled", "hooks", "trusted_mcp_servers")
# What is opened up adds up too, but an empty list closes all of it again.
_OPENED = ("hosts", "writable")


class SettingsError(ValueError):
    """A setting is wrong; says which file or variable, which key, and what it takes."""


@dataclass(slots=True)
class Loaded:
    """The settings in force, the files they came from, and what was set aside: of the workspace's, and of anyone's."""

    settings: Settings
    files: list[Path]
    set_aside: list[str]
    """What an untrusted workspace asked for and did not get."""
    overruled: list[str]
    """What anyone set looser than the organisation has it."""


def load_settings(workspace: Path, flags: Mapping[str, Any] | None = None) -> Loaded:
    """Settings for a workspace. `flags` is a nested mapping in the files' own form."""
    user_file, project_file = user_settings_file(), workspace / PROJECT_FILE
    organisation_file = organisation_settings_file()
    if os.environ.get("FERRULE_CONFIG") and not user_file.exists():
        raise SettingsError(phrase("FERRULE_CONFIG names {file}, and there is no such file.", file=user_file))
    environment = _from_environment()
    merged: dict[str, Any] = {}
    files: list[Path] = []
    set_aside: list[str] = []
    overruled: list[str] = []
    if organisation := _read(organisation_file):
        files.append(organisation_file)
        _check(organisation, str(organisation_file))
        merged = _sourced(organisation, "organisation", organisation_file)
    if user := _read(user_file):
        files.append(user_file)
        _check(user, str(user_file))
        merged = _merge(merged, _sourced(user, "user", user_file))
    if project := _read(project_file, of_the_workspace=True):
        files.append(project_file)
        asked = _check(project, str(project_file))
        if not is_trusted(workspace, merged.get("trusted_folders", [])):
            project = _narrowed(project, asked, _check(merged, str(user_file)), set_aside)
        merged = _merge(merged, _sourced(project, "project", project_file))
    if not (merged or environment or flags):
        return Loaded(Settings(), files, set_aside, overruled)
    for given, kind, name in ((environment, "environment", "the environment"), (flags, "flag", "the command line")):
        if given:
            _check(given, name)
            merged = _merge(merged, _sourced(given, kind, None))
    settings = _check(merged, "the settings together")
    if organisation:
        _hold_to(organisation, settings, overruled)
    return Loaded(settings, files, set_aside, overruled)


def _sourced(given: Mapping[str, Any], kind: str, file: Path | None) -> dict[str, Any]:
    """The same settings, in which each rule and each server knows where it stands."""
    sourced = dict(given)
    if permissions := given.get("permissions"):
        kept = dict(permissions)
        for key in _RULES:
            if key in kept:
                tables: list[dict[str, Any]] = [one if isinstance(one, dict) else {"rule": one} for one in kept[key]]
                kept[key] = [SourcedRule(**table, kind=kind, file=file) for table in tables]
        sourced["permissions"] = kept
    if servers := given.get("mcp_servers"):
        sourced["mcp_servers"] = {
            name: SourcedServer(**table, kind=kind, file=file) for name, table in dict(servers).items()
        }
    return sourced


def _hold_to(organisation: Mapping[str, Any], settings: Settings, overruled: list[str]) -> None:
    """Nobody on the machine has a looser mode than their organisation, or switches off its questions or sandbox."""
    said, permissions = organisation.get("permissions", {}), settings.permissions
    if "mode" in said and _MODES.index(permissions.mode) < _MODES.index(said["mode"]):
        overruled.append(f"permissions.mode = {permissions.mode!r}")
        permissions.mode = said["mode"]
    if said.get("dangerous") == "ask" and permissions.dangerous == "allow":
        overruled.append("permissions.dangerous = 'allow'")
        permissions.dangerous = "ask"
    if organisation.get("sandbox", {}).get("enabled") is True and not settings.sandbox.enabled:
        overruled.append("sandbox.enabled = False")
        settings.sandbox.enabled = True


def _read(file: Path, *, of_the_workspace: bool = False) -> dict[str, Any]:
    """A file of settings; the person's own may also be a pipe that they made for it."""
    import tomllib

    try:
        data = read_given(file) if of_the_workspace else file.read_bytes()
        return tomllib.loads(data.decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(phrase("{path} could not be read: {why}.", path=file, why=error.strerror)) from None
    except UnicodeDecodeError:
        raise SettingsError(phrase("{file} is not UTF-8 text. Save it as UTF-8.", file=file)) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(phrase("{file} is not valid TOML: {error}.", file=file, error=error)) from None


def _from_environment() -> dict[str, Any]:
    """`FERRULE_LIMITS_TIMEOUT=30` is `timeout = 30` under `[limits]`; lists are separated by commas."""
    given: dict[str, Any] = {}
    for variable, text in os.environ.items():
        if not variable.startswith(_ENVIRONMENT) or variable in _OTHER_VARIABLES or not text:
            continue
        path = variable.removeprefix(_ENVIRONMENT).lower()
        here: Any = given
        shape: Any = Settings()
        section, _, key = path.partition("_")
        if is_dataclass(getattr(shape, section, None)) and key:
            shape, here, path = getattr(shape, section), given.setdefault(section, {}), key
        names = [one.name for one in fields(shape)]
        if path not in names:
            raise SettingsError(
                phrase("{variable} sets nothing. There is {names}.", variable=variable, names=_names_under(shape))
            )
        current = getattr(shape, path)
        here[path] = _listed(text) if isinstance(current, list) else text
    return given


def _listed(text: str) -> list[str]:
    """Parts between commas; a comma in brackets belongs to its rule: `Read(a,b),Bash`."""
    parts, depth = [""], 0
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _names_under(shape: Any) -> str:
    return ", ".join(f"{one.name}" for one in fields(shape))


def is_trusted(workspace: Path, listed: Sequence[object]) -> bool:
    """Whether a folder is one of those that the person listed, or lies in one."""
    from pathlib import Path

    here = workspace.resolve()
    folders = [Path(str(one)).expanduser().resolve() for one in listed]
    return any(here == folder or folder in here.parents for folder in folders)


def _narrowed(project: Mapping[str, Any], asked: Settings, person: Settings, set_aside: list[str]) -> dict[str, Any]:
    """What an untrusted workspace may set, of what it `asked` for; the rest is named in `set_aside`.

    A file inside the workspace can be written by whoever wrote the workspace, an agent included. It may make things
    stricter; what would let more run, or load code, needs the person's word that the folder is trusted.
    """
    kept: dict[str, Any] = {key: project[key] for key in ("lang",) if key in project}
    permissions = dict(project.get("permissions", {}))
    if permissions.pop("allow", None):
        set_aside.append("permissions.allow")
    if permissions.get("dangerous") == "allow" and person.permissions.dangerous != "allow":
        set_aside.append(f"permissions.dangerous = {permissions.pop('dangerous')!r}")
    mode = permissions.get("mode")
    if mode and _MODES.index(mode) < max(_MODES.index(person.permissions.mode), _MODES.index("default")):
        set_aside.append(f"permissions.mode = {permissions.pop('mode')!r}")
    kept["permissions"] = permissions
    limits = dict(project.get("limits", {}))
    for key in [key for key, value in limits.items() if value > getattr(person.limits, key)]:
        del limits[key]
        set_aside.append(f"limits.{key}")
    kept["limits"] = limits
    tools = dict(project.get("tools", {}))
    set_aside += [f"tools.{key}" for key in ("folders", "plugins") if tools.pop(key, None)]
    kept["tools"] = tools
    files = dict(project.get("files", {}))
    set_aside += [f"files.{key}" for key in ("folders", "hard_links") if files.pop(key, None)]
    kept["files"] = files
    sandbox = dict(project.get("sandbox", {}))
    if person.sandbox.enabled and not asked.sandbox.enabled:
        set_aside.append(f"sandbox.enabled = {sandbox.pop('enabled')!r}")
    set_aside += [f"sandbox.{key}" for key in _OPENED if sandbox.get(key) and sandbox.pop(key)]
    kept["sandbox"] = sandbox
    ignored = asked.shell.look.ignored
    if "shell" in project and ignored != person.shell.look.ignored:
        if ignored == "keep":
            set_aside.append("shell.look.ignored = 'keep'")
        else:
            kept["shell"] = project["shell"]
    kept["assistant"] = _narrowed_assistant(project.get("assistant", {}), person, set_aside)
    # Servers are kept: each waits for the person's word of its own. But none takes the place of the person's.
    servers = dict(project.get("mcp_servers", {}))
    taken = [name for name in servers if name in person.mcp_servers]
    set_aside += [f"mcp_servers.{name}" for name in taken if servers.pop(name) is not None]
    if servers:
        kept["mcp_servers"] = servers
    # A model is asked with the person's key and money, and sees their files: whose it is, they alone decide.
    set_aside += [key for key in _THE_PERSONS if key in project]
    return kept


def _narrowed_assistant(asked: Mapping[str, Any], person: Settings, set_aside: list[str]) -> dict[str, Any]:
    """A workspace may lower the assistant's limits; what it may use and what is kept of it the person says."""
    kept: dict[str, Any] = {}
    for key, value in asked.items():
        lower = key.startswith("max_") and value and value <= (getattr(person.assistant, key) or float("inf"))
        if lower or (key == "project_words" and not value):
            kept[key] = value
        else:
            set_aside.append(f"assistant.{key}")
    return kept


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The upper source wins, key by key; rules, hooks and what is disabled add up: nobody lifts another's refusal."""
    merged = dict(below)
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge(merged[key], cast("dict[str, Any]", value))
        elif (key in _ADD_UP or (key in _OPENED and value)) and isinstance(merged.get(key), list):
            merged[key] = [*merged[key], *cast("list[Any]", value)]
        else:
            merged[key] = value
    return merged


def _shape_at(place: tuple[int | str, ...]) -> Any:
    """The settings that the last key of a place stands among; those of a list are told by its name."""
    shape: Any = Settings()
    for part in place:
        if part in _OF_A_LIST or part in _RULES:
            return _OF_A_LIST.get(str(part), RuleTable)
        shape = getattr(shape, str(part))
    return shape


def _check(given: Mapping[str, Any], source: str) -> Settings:
    from pydantic import TypeAdapter, ValidationError

    from ferrule.core.nearest import nearest

    try:
        return TypeAdapter(Settings).validate_python(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            shape = _shape_at(first["loc"][:-1])
            close = nearest(str(first["loc"][-1]), [one.name for one in fields(shape)], most=1)
            hint = (
                phrase("Did you mean `{name}`?", name=close[0])
                if close
                else phrase("There is {names}.", names=_names_under(shape))
            )
            raise SettingsError(
                phrase("{source}: there is no setting `{place}`. {hint}", source=source, place=place, hint=hint)
            ) from None
        raise SettingsError(
            phrase(
                "{source}: `{place}`: {what}; got {value}.",
                source=source,
                place=place,
                what=first["msg"],
                value=repr(first["input"]),
            )
        ) from None
