"""Reads git's configuration files strictly, to tell one that only describes a repository from one that runs programs.

Dozens of settings make git run something (`core.fsmonitor`, `filter.x.clean`, `alias.x`, `include.path` …), so the
harmless ones are named, and what is not surely understood is not harmless.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_SECTION = re.compile(r'^\[\s*([A-Za-z0-9-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\](.*)$')
_SETTING = re.compile(r"^([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_HARMLESS = {
    "core": {
        "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
        "symlinks", "autocrlf", "eol", "safecrlf", "sparsecheckout", "sparsecheckoutcone", "worktree",
    },
    "extensions": {"objectformat", "refstorage", "worktreeconfig", "partialclone"},
    "remote": {"url", "fetch", "pushurl", "promisor", "partialclonefilter", "tagopt", "prune"},
    "branch": {"remote", "merge", "rebase"},
    "submodule": {"url", "active", "ignore", "branch"},
    "user": {"name", "email"},
    "init": {"defaultbranch"},
    "pull": {"rebase", "ff"},
    "push": {"default", "autosetupremote"},
}  # fmt: skip
_OF_PERSON = {
    ("user", "name"), ("user", "email"), ("init", "defaultbranch"), ("core", "autocrlf"), ("core", "eol"),
    ("pull", "rebase"), ("pull", "ff"), ("push", "default"), ("push", "autosetupremote"), ("safe", "directory"),
}  # fmt: skip
_HOOKS_PATH = re.compile(r"^[^#;\n]*?\bhookspath\s*=[ \t]*(.+)$", re.IGNORECASE | re.MULTILINE)
_MOST = 1 << 20


@dataclass(slots=True, frozen=True)
class Setting:
    """One line: `[section "part"] name = value`, names in lower case."""

    section: str
    part: str | None
    name: str
    value: str


def read_settings(text: str) -> list[Setting] | None:
    """Every setting of a file, or None where any line of it is not surely understood."""
    if len(text) > _MOST:
        return None
    settings: list[Setting] = []
    section: str | None = None
    part: str | None = None
    for line in text.splitlines():
        rest = line.strip()
        if found := _SECTION.match(rest):
            section, part, rest = found[1].lower(), found[2], found[3].strip()
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.match(rest)
        if setting is None or section is None or rest.endswith("\\"):
            return None
        settings.append(Setting(section, part, setting[1].lower(), _plain(setting[2] or "")))
    return settings


def harmless(text: str) -> list[Setting] | None:
    """The settings of a file that runs nothing, or None. Where `core.worktree` points is for the caller to judge."""
    settings = read_settings(text)
    if settings is None:
        return None
    for setting in settings:
        if setting.name not in _HARMLESS.get(setting.section, ()):
            return None
        if setting.name in ("url", "pushurl") and ("::" in setting.value or setting.value.startswith("-")):
            return None  # a transport that is a program
    return settings


def hooks_paths(text: str) -> list[str]:
    """Every value that `core.hooksPath` may have in a file; rather one too many than one too few."""
    found = (value.strip() for value in _HOOKS_PATH.findall(text[:_MOST]))
    return [value[1:].partition('"')[0] if value.startswith('"') else _plain(value) for value in found]


@lru_cache(maxsize=4)  # asked at every start
def of_person(text: str) -> str:
    """The lines of a person's own configuration that a sandboxed git needs: who commits, and their habits."""
    wanted = [
        setting
        for setting in read_settings(text) or ()
        if setting.part is None and (setting.section, setting.name) in _OF_PERSON
    ]
    return "".join(f"[{one.section}]\n\t{one.name} = {_quoted(one.value)}\n" for one in wanted)


def _plain(value: str) -> str:
    """The value without its quotes and without a comment after it."""
    if len(value) > 1 and value[0] == value[-1] == '"' and '"' not in value[1:-1]:
        return value[1:-1].replace("\\\\", "\\")
    return re.split(r"\s[#;]", value, maxsplit=1)[0].strip()


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
