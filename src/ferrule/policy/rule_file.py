"""Changes the rules in a settings file, and nothing else in it: comments, order and spelling stay as they are."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.access import Mode
from ferrule.core.files import write_atomically
from ferrule.core.nearest import UnknownNameError, check_names
from ferrule.core.phrases import joined, phrase, said_by
from ferrule.pipeline.stages import Verdict
from ferrule.policy.commands.parts import Part
from ferrule.policy.findings import Requests
from ferrule.policy.patterns import RuleError
from ferrule.policy.rules import BASH, EDITS, FETCH, READ, About, Source, parse_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tomlkit import TOMLDocument

    from ferrule.core.tool import Tool
    from ferrule.policy.findings import Analyser
    from ferrule.policy.rules import Rule


# Rules as they were written, checked when they are loaded: one that cannot work is an error, not a surprise.


# Names that rules may use before their tool is there, or without one: kinds of resource, and tools others have.
MAY_COME = (BASH, READ, *EDITS, FETCH, "WebSearch", "MultiEdit", "Grep", "Glob", "LS", "FileSearch", "BashOutput",
            "KillShell", "BashInput", "executeCommand", "Task", "TodoWrite", "Skill")  # fmt: skip


@dataclass(slots=True, frozen=True)
class Written:
    """A rule as it stands in a file, with examples of what it is for and what it is not for."""

    verdict: Verdict
    text: str
    source: Source = field(default_factory=Source)
    match: Sequence[str] = ()
    no_match: Sequence[str] = ()


@dataclass(slots=True, frozen=True)
class KnownTools:
    """The tools there are. `complete` is false where some could not be loaded."""

    get: Callable[[str], Tool[Any] | None]
    names: Sequence[str]
    complete: bool = True


@dataclass(slots=True)
class Checked:
    """The rules that hold, and what should be said of them."""

    rules: list[Rule] = field(default_factory=list["Rule"])
    notes: list[str] = field(default_factory=list[str])


class RuleChecks:
    """Reads rules and tries their examples."""

    def __init__(self, workspace: Path, known: KnownTools | None = None, analyser: Analyser | None = None) -> None:
        self._workspace = Path(os.path.realpath(workspace))
        self._known = known
        self._requests = Requests(analyser)

    def read(self, written: Iterable[Written]) -> Checked:
        """All rules; raises `RuleError` with the file, the rule, and what to do about the first that cannot work."""
        checked = Checked()
        for one in written:
            try:
                rule = parse_rule(one.text, one.verdict, one.source)
                note = check_tool(rule, self._known) if self._known is not None else None
                for example in one.match:
                    if not self.fits(rule, example):
                        raise RuleError(phrase("its example `{example}` under `match` does not match", example=example))
                for example in one.no_match:
                    if self.fits(rule, example):
                        raise RuleError(phrase("its example `{example}` under `no_match` matches", example=example))
            except RuleError as error:
                words: dict[str, object] = {
                    "place": one.source.place,
                    "verdict": one.verdict.value,
                    "text": one.text,
                    "error": error,
                }
                told = (
                    phrase("{place}: the {verdict} rule `{text}` cannot work: {error}", **words)
                    if str(error).endswith("?")
                    else phrase("{place}: the {verdict} rule `{text}` cannot work: {error}.", **words)
                )
                if one.source.file is not None:  # one of the command line or a program stands nowhere else
                    quoted = shlex.quote(one.text)
                    mend = phrase(
                        "Nothing runs until it is fixed or removed: ferrule rules remove {quoted}", quoted=quoted
                    )
                    told = joined(" ", [told, mend])
                raise RuleError(told) from None
            checked.rules.append(rule)
            checked.notes += [f"{one.source.place}: {note}"] if note else []
        return checked

    def fits(self, rule: Rule, subject: str) -> bool:
        """Whether a rule is about a command, a path, a host, a tool's name, or what a tool says of a call."""
        if rule.about is About.TOOL:
            return rule.names(subject)
        if rule.host is not None:
            return rule.host.covers(subject) if rule.verdict is Verdict.ALLOW else rule.host.concerns(subject)
        if rule.path is not None:
            path = os.path.realpath(self._workspace / Path(subject).expanduser())
            look = rule.path.covers if rule.verdict is Verdict.ALLOW else rule.path.concerns
            return look(path, (str(self._workspace),))
        command = rule.command
        if command is None or command.is_whole(subject):
            return True
        if rule.about is About.CALL:
            return command.matches_text(subject)
        found = self._requests.understood(subject)
        if found.parts:
            parts = found.parts
        else:
            try:
                words = tuple(shlex.split(subject))
            except ValueError:
                words = ()
            parts = [Part(subject, words, words)] if words else []
        if rule.verdict is Verdict.ALLOW:
            return bool(parts) and all(command.covers(part) for part in parts)
        return command.concerns_text(subject) or any(command.concerns(part, subject) for part in parts)


def check_tool(rule: Rule, known: KnownTools) -> str | None:
    """What to say of a rule whose tool is not here; raises `RuleError` for one that is misspelt or cannot match."""
    name = rule.tool
    if "*" in name:
        return None
    tool = known.get(name)
    if tool is not None:
        if rule.about is About.CALL and not tool.has_signature:
            raise RuleError(phrase("`{name}` has nothing that brackets could match; write `{name}`", name=name))
        return None
    try:
        missing = check_names([name], [*known.names, *MAY_COME], complete=known.complete)
    except UnknownNameError as error:
        raise RuleError(said_by(error)) from None
    return f"the {rule.verdict.value} rule `{rule.text}` names no tool that is here." if missing else None


# Claude Code's permissions as Ferrule's: what can be carried over, and what cannot, with the reason.


_MODES = {
    "default": Mode.DEFAULT,
    "plan": Mode.PLAN,
    "acceptEdits": Mode.ACCEPT_EDITS,
    "dontAsk": Mode.DONT_ASK,
    "bypassPermissions": Mode.BYPASS,
}
# Names that mean the same under another name here.
_PATH_TOOLS = {"MultiEdit": "Edit", "NotebookEdit": "Edit", "Write": "Edit", "NotebookRead": "Read", "Grep": "Read",
               "Glob": "Read", "LS": "Read"}  # fmt: skip
_NO_SUCH_THING = {"Task", "Agent", "Skill", "SlashCommand", "TodoWrite", "TodoRead", "ExitPlanMode", "PowerShell"}
_KNOWN_KEYS = {"allow", "ask", "deny", "defaultMode", "additionalDirectories"}


@dataclass(slots=True, frozen=True)
class NotCarried:
    """Something of a settings file that Ferrule does not take over."""

    what: str
    why: str


@dataclass(slots=True)
class Imported:
    """What a settings file gives."""

    file: Path
    rules: list[tuple[Verdict, str]] = field(default_factory=list[tuple[Verdict, str]])
    mode: str | None = None
    folders: list[str] = field(default_factory=list[str])
    not_carried: list[NotCarried] = field(default_factory=list[NotCarried])
    changed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Rules that are written otherwise here: before and after."""


def claude_files(workspace: Path, home: Path | None = None) -> list[Path]:
    """The settings files that there are: the person's, the project's, and the person's for the project."""
    home = home or Path.home()
    listed = [
        home / ".claude" / "settings.json",
        workspace / ".claude" / "settings.json",
        workspace / ".claude" / "settings.local.json",
    ]
    return [file for file in listed if file.is_file()]


def read_claude_settings(file: Path) -> Imported:
    """The permissions of one file; raises `RuleError` for one that cannot be read."""
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise RuleError(phrase("{file} cannot be read: {error}", file=file, error=error)) from None
    imported = Imported(file)
    permissions: Any = cast("dict[str, Any]", document).get("permissions", {}) if isinstance(document, dict) else None
    if not isinstance(permissions, dict):
        raise RuleError(phrase("{file}: its `permissions` are not an object", file=file))
    found = cast("dict[str, Any]", permissions)
    for verdict in (Verdict.DENY, Verdict.ASK, Verdict.ALLOW):
        for text in _texts(found.get(verdict.value, []), verdict.value, imported):
            _carry_over(text, verdict, imported)
    if mode := found.get("defaultMode"):
        if str(mode) in _MODES:
            imported.mode = _MODES[str(mode)]
        else:
            imported.not_carried.append(NotCarried(f"defaultMode {mode!r}", "Ferrule has no such mode"))
    for folder in _texts(found.get("additionalDirectories", []), "additionalDirectories", imported):
        imported.folders.append(folder)
        imported.not_carried.append(
            NotCarried(
                f"additionalDirectories {folder!r}", "a workspace is one folder; run ferrule there, or above both"
            )
        )
    for key in sorted(set(found) - _KNOWN_KEYS):
        imported.not_carried.append(NotCarried(f"permissions.{key}", "Ferrule has no such setting"))
    return imported


def _texts(given: object, key: str, imported: Imported) -> list[str]:
    if not isinstance(given, list):
        imported.not_carried.append(NotCarried(f"permissions.{key}", "it is not a list"))
        return []
    listed = cast("list[object]", given)
    imported.not_carried += [
        NotCarried(f"{key} {one!r}", "it is not a text") for one in listed if not isinstance(one, str)
    ]
    return [one for one in listed if isinstance(one, str)]


def _carry_over(text: str, verdict: Verdict, imported: Imported) -> None:
    written = _translated(text)
    name = written.partition("(")[0]
    if name in _NO_SUCH_THING:
        imported.not_carried.append(NotCarried(f"{verdict.value} `{text}`", f"Ferrule has no `{name}`"))
        return
    try:
        parse_rule(written, verdict)
    except RuleError as error:
        imported.not_carried.append(NotCarried(f"{verdict.value} `{text}`", str(error)))
        return
    if (verdict, written) not in imported.rules:
        imported.rules.append((verdict, written))
    if written != text:
        imported.changed.append((text, written))


def _translated(text: str) -> str:
    """The same rule in Ferrule's words: path rules are `Read` or `Edit`, and `Tool(*)` is `Tool`."""
    found = re.fullmatch(r"\s*([^\s()]+)\((.*)\)\s*", text, re.DOTALL)
    if found is None:
        return text.strip()
    name, inner = found[1], found[2].strip()
    if inner in ("*", "**") and name != BASH and name not in ("Read", "Edit", "Write"):
        return name
    return f"{_PATH_TOOLS.get(name, name)}({inner})"


# A settings file that is changed in one place while all else in it stays: comments, order and spelling.


class SettingsDocument:
    """A TOML file, read and written whole."""

    def __init__(self, path: Path) -> None:
        # A settings file is often a link into a folder of dotfiles; the link stays, and its target changes.
        self.path = Path(os.path.realpath(path))

    def document(self) -> TOMLDocument:
        """What is in it; empty where there is no file. Raises `RuleError`."""
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            return tomlkit.parse(self.path.read_bytes().decode("utf-8-sig"))
        except FileNotFoundError:
            return tomlkit.document()
        except UnicodeDecodeError:
            raise RuleError(
                phrase("{path} is not UTF-8 text. Nothing was changed; save it as UTF-8.", path=self.path)
            ) from None
        except TOMLKitError as error:
            raise RuleError(
                phrase(
                    "{path} is not valid TOML: {error}. Nothing was changed; fix it in an editor.",
                    path=self.path,
                    error=error,
                )
            ) from None
        except OSError as error:
            raise RuleError(phrase("{path} could not be read: {why}.", path=self.path, why=error.strerror)) from None

    def write(self, document: TOMLDocument) -> None:
        """Whole or not at all: a file that was cut in half would be no settings."""
        text = document.as_string()
        if tomllib.loads(text) != document.unwrap():
            raise RuleError(
                phrase("{path} cannot be edited without losing its formatting. Nothing was changed.", path=self.path)
            )
        if self.path.exists() and not self.path.is_file():  # /dev/null, which many name to have no settings
            raise RuleError(phrase("{path} is not a file that can be written to. Nothing was changed.", path=self.path))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, text.encode())
        except OSError as error:
            raise RuleError(phrase("{path} could not be written: {why}.", path=self.path, why=error.strerror)) from None


_SECTION = "permissions"


class RuleFile(SettingsDocument):
    """A settings file whose rules can be added to and taken from. Works on rules that cannot be read, too."""

    def rules(self) -> Iterator[tuple[Verdict, str]]:
        """Every rule in the file, as it is written."""
        document = self.document()
        for verdict in Verdict:
            for entry in self._list(document, verdict) or ():
                yield verdict, _text(entry)

    def add(self, text: str, verdict: Verdict, match: Sequence[str] = (), no_match: Sequence[str] = ()) -> bool:
        """Put a rule at the end of its list; False when it stands there already."""
        import tomlkit

        document = self.document()
        listed: Any = self._list(document, verdict)
        if listed is not None and any(_text(entry) == text for entry in listed):
            return False
        entry: Any = text
        if match or no_match or _is_table_array(listed):
            entry = tomlkit.table() if _is_table_array(listed) else tomlkit.inline_table()
            entry["rule"] = text
            for key, examples in (("match", match), ("no_match", no_match)):
                if examples:
                    entry[key] = list(examples)
        if listed is None:
            section: Any = document.setdefault(_SECTION, tomlkit.table())
            listed = section[verdict.value] = tomlkit.array()
        listed.append(entry)
        self.write(document)
        return True

    def remove(self, text: str, verdict: Verdict | None = None) -> list[Verdict]:
        """Take a rule out of the lists it stands in, or out of one; the lists it was in."""
        document = self.document()
        found: list[Verdict] = []
        for one in Verdict if verdict is None else (verdict,):
            listed: Any = self._list(document, one)
            positions = [at for at, entry in enumerate(listed or ()) if _text(entry) == text]
            for at in reversed(positions):
                del listed[at]
            found += [one] if positions else []
        if found:
            self.write(document)
        return found

    def _list(self, document: TOMLDocument, verdict: Verdict) -> Sequence[Any] | None:
        section = cast("Any", document).get(_SECTION)
        if section is None:
            return None
        if not hasattr(section, "get"):
            raise RuleError(
                phrase(
                    "{path}: `{section}` is not a section. Nothing was changed; fix it in an editor.",
                    path=self.path,
                    section=_SECTION,
                )
            )
        listed = section.get(verdict.value)
        if listed is not None and not isinstance(listed, list):
            raise RuleError(
                phrase(
                    "{path}: `{section}.{name}` is not a list. Nothing was changed.",
                    path=self.path,
                    section=_SECTION,
                    name=verdict.value,
                )
            )
        return cast("Sequence[Any] | None", listed)


def _text(entry: Any) -> str:
    return str(entry.get("rule", "")) if hasattr(entry, "get") else str(entry)


def _is_table_array(listed: Any) -> bool:
    """`[[permissions.allow]]`, where every rule is a section of its own."""
    from tomlkit.items import AoT

    return isinstance(listed, AoT)
