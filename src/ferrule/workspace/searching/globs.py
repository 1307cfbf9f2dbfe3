"""Globs: what a model writes, in the form ripgrep reads, and as a regular expression for what it cannot be told.

`*` and `?` stay within a name, `**` spans folders, `{a,b}` and `[a-z]` choose. A glob without a slash means a name at
any depth; one with a slash starts at the folder that is searched, or fits at any depth where only names are looked for.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.core.shown_text import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ferrule.workspace.paths import Place


_LONGEST = 4096
_OWN_TYPE = "ferrule"


def split_globs(text: str) -> list[str]:
    """Several globs in one text, as models write them: `*.ts, *.tsx`. A comma in braces or brackets stays."""
    parts: list[str] = [""]
    depth = 0
    for position, character in enumerate(text):
        escaped = position > 0 and text[position - 1] == "\\"
        if character in "{[" and not escaped:
            depth += 1
        elif character in "}]" and not escaped:
            depth = max(0, depth - 1)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def excluded_globs(text: str) -> list[str]:
    """The globs of what `text` names, to be left out: files, and whole folders with all that is in them."""
    out: list[str] = []
    for one in split_globs(text):
        name = one.removeprefix("!").rstrip("/")
        inside = f"{name}/**" if "/" in name else f"**/{name}/**"
        out += [inside] if one.endswith("/") else [name, inside]
    return out


def glob_below(glob: str, place: Place, *, any_depth: bool = False) -> str:
    """The glob as it reads from the root of `place`; what would lead out is refused.

    With `any_depth`, one with a slash fits below any folder too, unless it says where it starts: `./a/*`, `/home/x/*`.
    """
    negated = glob.startswith("!")
    body = glob[1:] if negated else glob
    if len(body) > _LONGEST:
        raise _refused(
            cut(glob, 60),
            phrase("is {count} characters long", count=f"{len(glob):,}"),
            phrase("Use at most {most}.", most=f"{_LONGEST:,}"),
        )
    if "\0" in body:
        raise _refused(glob.replace("\0", "\\0"), phrase("contains a NUL byte"), phrase("Remove it."))
    if ".." in body.split("/"):
        raise _refused(glob, phrase("leads out with `..`"), phrase("Give the folder as `path`, and the glob below it."))
    starts_here = body.startswith(("./", "/", "~"))
    body = body.removeprefix("./")
    if body.startswith(("/", "~")):
        # An absolute glob that lies in the searched folder, from there on.
        start = PurePosixPath(body)
        fixed: list[str] = []
        for part in start.parts:
            if any(character in part for character in "*?[{\\"):
                break
            fixed.append(part)
        folder = PurePosixPath(*fixed) if fixed else start
        if not folder.is_relative_to(place.path):
            raise _refused(
                glob,
                phrase("is not in `{folder}`", folder=place.name),
                phrase("Write it from the folder given as `path`."),
            )
        body = "/".join(start.parts[len(place.path.parts) :]) or "**"
    if body.endswith("/"):
        body += "**"
    if not body:
        raise _refused(glob, phrase("is empty"), phrase("Use `**` for every file."))
    if "/" in body or starts_here:
        inner = "" if place.inner == "." else escape_glob(place.inner) + "/"
        anywhere = "**/" if any_depth and not starts_here and not body.startswith("**/") else ""
        body = f"/{inner}{anywhere}{body}"
    return f"!{body}" if negated else body


def escape_glob(text: str) -> str:
    """The glob that means just this text."""
    return re.sub(r"([*?\[\]{}!\\])", r"\\\1", text)


def _refused(glob: str, why: str, suggestion: str) -> ToolError:
    return ToolError(
        phrase("The glob `{glob}` {why}.", glob=glob, why=why), kind=ErrorKind.VALIDATION, suggestion=suggestion
    )


Fit: TypeAlias = "Callable[[Sequence[bytes]], Iterable[object]]"


@dataclass(slots=True, frozen=True)
class Selection:
    """Which files a search is for: what ripgrep is told, and what it cannot be told and is looked at afterwards.

    ripgrep's own `--glob` would bring back what the ignore files leave out, so wanted names go in as a file type.
    """

    flags: tuple[str, ...]
    fit: Fit | None
    """For each of some names whether it fits (truthy), where that has to be looked at."""


def select(globs: Sequence[str], file_type: str | None = None) -> Selection:
    """The files that fit any of the globs and none of those that begin with `!`, of one type if it is given."""
    flags = [f"--glob={glob}" for glob in globs if glob.startswith("!")]
    wanted = [glob for glob in globs if not glob.startswith("!")]
    names = [_name_part(glob) for glob in wanted]
    if file_type is not None:
        flags.append(f"--type={file_type}")
    elif wanted and all(names):
        flags += [f"--type-add={_OWN_TYPE}:{name}" for name in names if name]
        flags.append(f"--type={_OWN_TYPE}")
    # Whether they ask nothing of the folders that a name lies in.
    anywhere = all("/" not in glob or glob.rpartition("/")[0] == "/**" for glob in wanted)
    told = file_type is None and all(names) and anywhere
    if not wanted or told or wanted == ["**"]:
        return Selection(tuple(flags), None)
    either = "|".join(f"(?:{compile_glob(glob).pattern})" for glob in wanted)
    fits = re.compile(rf"(?:\./)?(?:{either})", re.DOTALL).fullmatch

    def fit(names: Sequence[bytes]) -> Iterable[object]:
        # Ten thousand names are looked at in a moment, if it is not one by one.
        return map(fits, os.fsdecode(b"\0".join(names)).split("\0"))

    return Selection(tuple(flags), fit)


def both(first: Fit | None, second: Fit | None) -> Fit | None:
    """Both must say that a name fits; one that is None says so of every name."""
    if first is None or second is None:
        return first or second
    return lambda names: [one and other for one, other in zip(first(names), second(names), strict=True)]


def _name_part(glob: str) -> str | None:
    """What a glob asks of the name alone; None where that cannot be told."""
    folders, _, name = glob.rpartition("/")
    if not name or "**" in name or folders.count("{") != folders.count("}") or ("[" in folders and "]" not in folders):
        return None
    return None if ":" in name else name  # a colon means something else in ripgrep's definition of a type


@lru_cache(maxsize=1024)
def compile_glob(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression over a path from the root, `/` between its parts."""
    anchored = "/" in glob.rstrip("/")
    body = glob.strip("/") if anchored else glob.rstrip("/")
    try:
        translated = _translate(body)
        return re.compile(("" if anchored else "(?:.*/)?") + translated, re.DOTALL)
    except re.error as error:
        raise _refused(
            glob, phrase("cannot be read: {error}", error=error.msg), phrase("Put a special character in brackets.")
        ) from None


def _translate(glob: str) -> str:
    out: list[str] = []
    position = braces = 0
    while position < len(glob):
        rest = glob[position:]
        character = glob[position]
        if rest.startswith("**/") and (position == 0 or glob[position - 1] == "/"):
            out.append("(?:.*/)?")
            position += 3
            continue
        if rest == "**" and (position == 0 or glob[position - 1] == "/"):
            out.append(".*")
            position += 2
            continue
        position += 1
        if character == "*":
            if not (out and out[-1] == "[^/]*"):
                out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "[" and (end := glob.find("]", position + 1 + glob[position : position + 1].count("!"))) > 0:
            chosen = glob[position:end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^/{chosen[1:]}]" if chosen[:1] in ("!", "^") else f"(?!/)[{chosen}]")
            position = end + 1
        elif character == "{" and "}" in rest:
            braces += 1
            out.append("(?:")
        elif character == "}" and braces:
            braces -= 1
            out.append(")")
        elif character == "," and braces:
            out.append("|")
        elif character == "\\" and position < len(glob):
            out.append(re.escape(glob[position]))
            position += 1
        else:
            out.append(re.escape(character))
    return "".join(out) + ")" * braces
