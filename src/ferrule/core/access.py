"""What a call touches: the one declaration that permission, scheduling, snapshots and the audit line share."""

from __future__ import annotations

import os
from posixpath import normpath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ferrule.core.context import Session


class Touch(NamedTuple):
    """A read or a write of one named resource.

    A resource has a scheme and a name: `path:/home/me/a.txt`, `host:example.org`, `shell:main`. Names of
    `path` resources nest: touching a folder touches what is in it. `*` is everything there is.
    """

    resource: str
    write: bool = False

    def __str__(self) -> str:
        return f"{'write' if self.write else 'read'} {self.resource}"


Touches = tuple[Touch, ...]

NOTHING: Touches = ()
READS_ANYTHING: Touches = (Touch("*"),)
WRITES_ANYTHING: Touches = (Touch("*", write=True),)


SETTINGS = frozenset({
    "ferrule.toml", ".ferrule", ".vscode", ".idea", ".zed", ".fleet", ".cursor", ".windsurf", ".claude", ".codex",
    ".gemini", ".mcp.json", ".devcontainer", ".devcontainer.json", ".vs", ".nvim.lua", ".nvimrc", ".exrc", ".vimrc",
    ".dir-locals.el", ".envrc", ".husky", ".gitmodules", ".gitconfig", ".bash_aliases", ".bashrc", ".bash_profile",
    ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
})  # fmt: skip
"""Names that other programs run or obey wherever they lie: settings of editors, agents and shells."""
OF_GIT = frozenset({"config", "config.worktree", "hooks", "commondir"})
"""The same within a repository's `.git`."""


def reads(scheme: str, name: object) -> Touch:
    """A read of one resource: `reads("path", "/etc/hosts")`."""
    return Touch(f"{scheme}:{name}")


def writes(scheme: str, name: object) -> Touch:
    """A write of one resource: `writes("path", "/tmp/a")`."""
    return Touch(f"{scheme}:{name}", write=True)


def located(
    said: Iterable[Touch] | Touch | None, fill: Callable[[str], str], session: Session
) -> Iterable[Touch] | Touch | None:
    """Touches that a tool declared as patterns, for one call: parameters put in, paths taken from the session's folder.

    A path is the real one, so that two names of one file are known to be one.
    """
    if said is None or not (isinstance(said, tuple) and any("{" in one.resource for one in _each(said))):
        return said
    return tuple(_located(touch, fill, session) for touch in _each(said))


def _each(said: Iterable[Touch] | Touch) -> Iterable[Touch]:
    return (said,) if isinstance(said, Touch) else said


def _located(touch: Touch, fill: Callable[[str], str], session: Session) -> Touch:
    if "{" not in touch.resource:
        return touch
    scheme, _, name = touch.resource.partition(":")
    name = fill(name)
    if scheme == "path":
        path = os.path.join(session.directory, os.path.expanduser(name))  # noqa: PTH118, PTH111 - pure text
        name = os.path.normpath(path) if "\0" in name else os.path.realpath(path)
    return Touch(f"{scheme}:{name}", touch.write)


def collide(left: Touches, right: Touches) -> bool:
    """Whether the order of two calls can matter: one writes what the other touches."""
    return any((a.write or b.write) and _overlap(a.resource, b.resource) for a in left for b in right)


def _overlap(a: str, b: str) -> bool:
    if a == "*" or b == "*":
        return True
    a, b = _one_name(a), _one_name(b)
    if a == b:
        return True
    if not (a.startswith("path:") and b.startswith("path:")):
        return False
    return _inside(a, b) or _inside(b, a)


def _one_name(resource: str) -> str:
    if not resource.startswith("path:"):
        return resource
    return "path:" + normpath(resource.removeprefix("path:")).replace("//", "/")


def _inside(inner: str, outer: str) -> bool:
    return inner.startswith(outer if outer.endswith("/") else outer + "/")
