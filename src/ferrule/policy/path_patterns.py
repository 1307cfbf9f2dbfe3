"""Paths in a rule, in the way of `.gitignore`.

`//etc/**` starts at the root of the file system, `~/.ssh/**` at the home, `/src/**` at the folder of the project's
settings, `./src/**` and `src/**` at the workspace. A name without a slash, or after `**/`, means it at any depth. `*`
and `?` stay within a name, `**` spans folders, `[a-z]` chooses; a folder's name with `/` at the end is all in it.

Deny and ask rules hold for a path and all below it, and a bare name wherever it lies. Allow rules must fit the path
itself, and a bare name counts below the workspace alone. All of it is about where a file really is, links followed.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.policy.sources import RuleError

if TYPE_CHECKING:
    from collections.abc import Sequence


_SPECIAL = re.compile(r"[*?\[\\]")


class PathPattern:
    """The paths that a rule is about."""

    __slots__ = ("_anchor", "_body", "anywhere", "text")

    def __init__(self, text: str, root: Path | None = None) -> None:
        self.text = text
        body = text.strip()
        _refuse_impossible(body)
        self.anywhere = False
        anchor: str | None = None
        if body.startswith("//"):
            anchor, body = "/", body.lstrip("/")
        elif body == "~" or body.startswith("~/"):
            anchor, body = "~", body[1:].lstrip("/")
        elif body.startswith("/"):
            anchor, body = str(root) if root is not None else None, body.lstrip("/")
        elif body.startswith("**/") or "/" not in body.rstrip("/"):
            self.anywhere, body = True, body.removeprefix("**/")
        self._anchor = anchor
        self._body = f"{body}**" if body.endswith("/") or not body else body.removeprefix("./") or "**"

    def covers(self, path: str, roots: Sequence[str]) -> bool:
        """Whether an allow rule reaches this real path. `roots` are the workspace's, its own first."""
        return any(shape.strict.fullmatch(path) for shape in self._shapes(roots, allow=True))

    def concerns(self, path: str, roots: Sequence[str]) -> bool:
        """Whether a deny or ask rule is about this real path."""
        return any(shape.wide.fullmatch(path) for shape in self._shapes(roots, allow=False))

    def may_lie_in(self, folder: str, roots: Sequence[str]) -> bool:
        """Whether what it is about may lie in this folder."""
        inside = folder if folder.endswith("/") else f"{folder}/"
        for shape in self._shapes(roots, allow=False):
            if self.anywhere or (shape.base + "/").startswith(inside):
                return True
            if shape.wide.fullmatch(folder) or (shape.spans and inside.startswith(shape.base.rstrip("/") + "/")):
                return True
        return False

    def lies_in(self, folder: str, roots: Sequence[str]) -> bool:
        """Whether its fixed beginning lies in this folder, so that removing the folder removes it."""
        inside = folder if folder.endswith("/") else f"{folder}/"
        return not self.anywhere and any(
            f"{shape.base}/".startswith(inside) for shape in self._shapes(roots, allow=False)
        )

    def is_named_by(self, other: PathPattern, roots: Sequence[str]) -> bool:
        """Whether another pattern names the place that this one is about, and does not just take it in.

        A place that starts somewhere is named by what begins in it, or by its name; one that may be anywhere by a name
        of its own. Names that only lead to the workspace name nothing in it.
        """
        names = other._names(roots)
        if self.anywhere:
            return not names.isdisjoint(_literal(self._body))
        places = [base.lower().rstrip("/") for base in self.bases(roots)]
        if other.anywhere:
            return any(place.rpartition("/")[2] in names for place in places)
        return any(f"{base.lower()}/".startswith(f"{place}/") for base in other.bases(roots) for place in places)

    def _names(self, roots: Sequence[str]) -> frozenset[str]:
        """The names that stand as they are, without `*` and the like."""
        if self.anywhere or self._anchor is None:
            return _literal(self._body)
        rest = _fixed_part(self._body)[1]
        for base in self.bases(roots):
            for root in roots:
                if f"{root}/".startswith(f"{base.rstrip('/')}/"):
                    return _literal(rest)
                if base.startswith(f"{root}/"):
                    return _literal(base.removeprefix(root)) | _literal(rest)
        return _literal(self._body)

    @property
    def name(self) -> str | None:
        """The glob of a name that it means at any depth; None for a pattern that starts somewhere or has folders."""
        return self._body if self.anywhere and "/" not in self._body and "**" not in self._body else None

    def wide_shapes(self, roots: Sequence[str]) -> list[str]:
        """The regular expressions that `concerns` goes by."""
        return [shape.wide.pattern for shape in self._shapes(roots, allow=False)]

    def bases(self, roots: Sequence[str]) -> list[str]:
        """The fixed beginnings of what it is about."""
        return [shape.base for shape in self._shapes(roots, allow=False)]

    def _shapes(self, roots: Sequence[str], *, allow: bool) -> tuple[_Shape, ...]:
        if self.anywhere:
            starts = tuple(roots) if allow else ("/",)
        elif self._anchor is not None:
            starts = (_real(str(Path.home())) if self._anchor == "~" else self._anchor,)
        else:
            starts = tuple(roots[:1])
        return _compiled(starts, self._body, self.anywhere, allow)


class _Shape:
    """A pattern from one folder on, ready to be compared with."""

    __slots__ = ("base", "spans", "strict", "wide")

    def __init__(self, start: str, body: str, *, anywhere: bool) -> None:
        fixed, rest = ("", body) if anywhere else _fixed_part(body)
        self.base = os.path.normpath(os.path.join(start, fixed)) if fixed else start  # noqa: PTH118 - pure text
        self.spans = "**" in rest
        before = "" if self.base == "/" else re.escape(self.base)
        all_below = rest == "**" or rest.endswith("/**")
        top = rest[:-2].rstrip("/") if all_below else rest
        way = before if not top else f"{before}/(?:.*/)?" if anywhere else f"{before}/"
        shape = way + _translate(top)
        self.strict = re.compile(f"{shape}/.+" if all_below else shape if rest else f"{before}", re.DOTALL)
        self.wide = re.compile(f"{shape}(?:/.*)?", re.DOTALL)


@lru_cache(maxsize=8)
def _real(home: str) -> str:
    return os.path.realpath(home)


@lru_cache(maxsize=4096)
def _compiled(starts: tuple[str, ...], body: str, anywhere: bool, allow: bool) -> tuple[_Shape, ...]:
    """The shapes of a pattern from each start on.

    What is denied is also denied where links on the pattern's fixed part lead. What is allowed is not: whoever can
    put a link in the place of an allowed folder would choose what is allowed.
    """
    shapes: list[_Shape] = []
    for start in starts:
        shapes.append(_Shape(start, body, anywhere=anywhere))
        real = os.path.realpath(shapes[-1].base)
        if not allow and not anywhere and real != shapes[-1].base:
            shapes.append(_Shape(real, _fixed_part(body)[1], anywhere=False))
    return tuple(shapes)


def _fixed_part(body: str) -> tuple[str, str]:
    """The folders before the first special character, and what follows them."""
    parts = body.split("/")
    count = next((at for at, part in enumerate(parts) if _SPECIAL.search(part)), len(parts))
    return "/".join(parts[:count]), "/".join(parts[count:])


def _translate(body: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(body):
        rest = body[position:]
        if rest.startswith("**/") and (position == 0 or body[position - 1] == "/"):
            out.append("(?:.*/)?")
            position += 3
            continue
        character = body[position]
        position += 1
        if character == "*":
            if not (out and out[-1] == "[^/]*"):
                out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "[":
            end = body.index("]", position + 1)
            chosen = body[position:end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^/{chosen[1:]}]" if chosen[0] in "!^" else f"(?!/)[{chosen}]")
            position = end + 1
        elif character == "\\":
            out.append(re.escape(body[position]))
            position += 1
        else:
            out.append(re.escape(character))
    return "".join(out)


def _literal(body: str) -> frozenset[str]:
    return frozenset(part.lower() for part in body.split("/") if part and not _SPECIAL.search(part))


def escape_path(path: str) -> str:
    """The pattern that means just this path."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", path)


def _refuse_impossible(body: str) -> None:
    if not body:
        raise RuleError(
            phrase("nothing stands in the brackets; leave them out to mean the tool, or write `**` for all paths")
        )
    if "\0" in body:
        raise RuleError(phrase("the path holds a NUL byte, which no path has"))
    if body.startswith("!"):
        raise RuleError(phrase("a rule has no exceptions with `!`; put what may be done in another list"))
    if body.startswith("~") and body != "~" and not body.startswith("~/"):
        raise RuleError(
            phrase(
                "`{name}` is nobody's home here; write `~/…`, or `//` and the whole path", name=body.partition("/")[0]
            )
        )
    if re.search(r"(?<!\\)[{}]", body):
        raise RuleError(
            phrase("`{a,b}` does not choose in a path; write a rule for each, or `[{]` for the brace itself")
        )
    if body.endswith("\\") and not body.endswith("\\\\"):
        raise RuleError(phrase("it ends with a backslash, which has nothing to stand before"))
    if "://" in body:
        raise RuleError(phrase("that is an address, not a path"))
    for opened in re.finditer(r"(?<!\\)\[", body):
        if "]" not in body[opened.end() + 1 :]:
            raise RuleError(phrase("a `[` is not closed; write `[[]` for the bracket itself"))
    anchored = body.removeprefix("//").removeprefix("~/").removeprefix("/").removeprefix("./")
    if any(part == ".." for part in anchored.split("/")) and body.startswith(("**", "*")):
        raise RuleError(phrase("`..` after `*` leads nowhere"))


# Hosts in a rule: `domain:example.org`, or `domain:*.example.org` for those below it.


_PREFIX = "domain:"
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\*|\[[0-9a-f:.]+\]")


class HostPattern:
    """One host, or all below one."""

    __slots__ = ("_below", "_name", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        if not text.startswith(_PREFIX):
            raise RuleError(phrase("hosts are written `domain:example.org`, not `{text}`", text=text))
        name = text.removeprefix(_PREFIX).strip().lower().rstrip(".")
        if not _HOST.fullmatch(name):
            raise RuleError(
                phrase(
                    "`{name}` is not the name of a host; leave out `https://`, the port and the path: "
                    "`domain:example.org`",
                    name=name,
                )
            )
        self._below = name.startswith("*")
        self._name = name.removeprefix("*").removeprefix(".")

    def covers(self, host: str) -> bool:
        """Whether an allow rule reaches this host: the very name, or with `*.` those below it."""
        host = plain_host(host)
        return host.endswith(f".{self._name}" if self._name else "") if self._below else host == self._name

    def concerns(self, host: str) -> bool:
        """Whether a deny or ask rule does: a host and all below it, since whoever owns the one owns the others."""
        host = plain_host(host)
        return not self._name or host == self._name or host.endswith(f".{self._name}")


def plain_host(host: str) -> str:
    """The bare name: no port, no dot at the end, small letters."""
    host = host.lower()
    if not host.startswith("["):
        host = host.partition(":")[0]
    return host.rstrip(".")
