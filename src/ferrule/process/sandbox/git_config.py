"""Reads git's configuration files strictly, to tell what only describes a repository from what makes git run programs.

A file of which any line is not surely understood counts as one that runs something.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ferrule.core.lazy_pattern import lazy_pattern

_SECTION = lazy_pattern(r'^\[\s*([A-Za-z0-9-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\](.*)$', re.ASCII)
_SETTING = lazy_pattern(r"^([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$", re.ASCII)
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
_MERGED = {
    "remote": {"url", "pushurl", "fetch", "tagopt", "prune", "prunetags", "gh-resolved"},
    "branch": {"remote", "pushremote", "merge", "rebase", "description"},
    "user": {"name", "email"},
}  # fmt: skip
# Over the network: from a folder that is a remote, git runs hooks when it is pushed to, and `x::y` is a program.
_AWAY = lazy_pattern(
    r"(?:https?|ssh|git)://[A-Za-z0-9_\[][\w.~:/?@!$&'()*+,=%\[\]-]*|"
    r"(?:[A-Za-z0-9_][\w.+-]*@)?[A-Za-z0-9][\w.-]+:(?!:|//)[\w.~/+%-]*",
    re.ASCII,
)
_OF_PERSON = {
    ("user", "name"), ("user", "email"), ("init", "defaultbranch"), ("core", "autocrlf"), ("core", "eol"),
    ("pull", "rebase"), ("pull", "ff"), ("push", "default"), ("push", "autosetupremote"), ("safe", "directory"),
}  # fmt: skip
_MOST = 1 << 20


@dataclass(slots=True, frozen=True)
class Setting:
    """One line: `[section "part"] name = value`, names in lower case."""

    section: str
    part: str | None
    name: str
    value: str
    raw: str = ""
    """The value as it is written."""


def read_settings(text: str) -> list[Setting] | None:
    """Every setting of a file, or None where any line of it is not surely understood."""
    text = text.replace("\r\n", "\n")
    if len(text) > _MOST or any(one < " " and one not in "\t\n" for one in set(text)):
        return None
    settings: list[Setting] = []
    section: str | None = None
    part: str | None = None
    for line in text.split("\n"):  # nothing else ends a line for git
        rest = line.strip(" \t")
        if found := _SECTION.match(rest):
            section, part, rest = found[1].lower(), found[2], found[3].strip(" \t")
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.match(rest)
        if setting is None or section is None or rest.endswith("\\"):
            return None
        settings.append(Setting(section, part, setting[1].lower(), _plain(setting[2] or ""), setting[2] or ""))
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


def runs_nothing_new(before: str, after: str) -> bool:
    """Whether a file was changed in nothing but remotes, branches and the user, so that git runs what it ran before.

    A new remote has to be on another machine, and a branch has to follow a remote that has an address: git takes any
    other name for a folder.
    """
    old, new = read_settings(before), read_settings(after)
    if old is None or new is None:
        return False
    if [one for one in old if not _is_merged(one)] != [one for one in new if not _is_merged(one)]:
        return False
    added = set(new) - set(old)
    if any(one.name in ("url", "pushurl") and not _AWAY.fullmatch(one.value) for one in added):
        return False
    return _without_address(new) <= _without_address(old)


def _is_merged(one: Setting) -> bool:
    return one.name in _MERGED.get(one.section, ()) and (one.part is None) == (one.section == "user")


def _without_address(settings: list[Setting]) -> set[str | None]:
    """The remotes that are named, and have no address."""
    named = {one.part for one in settings if one.section == "remote"}
    named |= {one.value for one in settings if one.section == "branch" and one.name in ("remote", "pushremote")}
    return named - {"."} - {one.part for one in settings if one.section == "remote" and one.name == "url"}


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
    return re.split("[#;]", value, maxsplit=1)[0].strip(" \t")


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
