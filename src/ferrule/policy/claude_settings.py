"""Claude Code's permissions as Ferrule's: what can be carried over, and what cannot, with the reason.

Reads the `permissions` of `settings.json` files. Rules are written alike in both; what differs is said for each.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ferrule.core.phrases import phrase
from ferrule.pipeline.stages import Verdict
from ferrule.policy.rules import BASH, parse_rule
from ferrule.policy.sources import RuleError

_MODES = {
    "default": "default",
    "plan": "plan",
    "acceptEdits": "accept-edits",
    "dontAsk": "dont-ask",
    "bypassPermissions": "bypass",
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
    if name in _PATH_TOOLS:
        return f"{_PATH_TOOLS[name]}({inner})"
    return f"{name}({inner})"
