"""Checks a draft's types with ty, which is an extra: in a closed box, before anything of the draft runs (M4).

The box has no network and none of the workspace, so that no settings file there decides what is found. ty only reads:
its box and the draft's own are two, and a draft cannot change what is said of it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import ferrule
from ferrule.extension import phrase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.extension.hosting import Sandbox
    from ferrule.plugins.drafts import Draft

SECONDS = 20.0
_MOST_OUTPUT = 1 << 20
_MOST_NAMED = 20
_ERROR = "major"
"""What ty calls an error in this form; a warning is `minor`."""
_WITH_FILE = 'cat > "$0" && exec "$@"'
"""The draft comes on standard input: it is a file in the box and nowhere else."""


@dataclass(slots=True, frozen=True)
class TypeCheck:
    """What is wrong with a draft's types, or why nobody looked."""

    problems: tuple[str, ...] = ()
    unchecked: str = ""


def find_checker() -> str | None:
    """The program of the wheel `ty`, in the version that the extra asks for; none from PATH."""
    try:
        from ty import find_ty_bin
    except ImportError:
        return None
    try:
        return find_ty_bin()
    except OSError:
        return None


async def check_types(draft: Draft, sandbox: Sandbox, seconds: float = SECONDS) -> TypeCheck:
    """What a type checker finds in a draft; where there is none, or it fails, that is said."""
    import asyncio
    from tempfile import TemporaryFile

    from ferrule.extension.hosting import Bounds, Profile, open_box

    program = find_checker()
    if program is None:
        return TypeCheck(unchecked=phrase("no type checker is installed; pip install 'ferrule[drafts]'"))
    file = f"/tmp/{draft.name}.py"  # noqa: S108 - the box's own
    prefix, base, program = map(os.path.realpath, (sys.prefix, sys.base_prefix, program))
    own = _folders_outside(prefix, base)
    command = [program, "check", "--output-format", "gitlab", "--no-progress", "--exit-zero", "--python", prefix]
    command += [word for one in own for word in ("--extra-search-path", one)]
    profile = Profile(
        writable=(),
        folder=Path("/"),
        readable=tuple(map(Path, dict.fromkeys([prefix, base, program, *own]))),
        bounds=Bounds(processes=64, memory=2 << 30, file_size=64 << 20),
        closed=True,
    )
    with TemporaryFile() as given, TemporaryFile() as found, TemporaryFile() as said:
        given.write(draft.text.encode())
        given.seek(0)
        box = await open_box(
            sandbox,
            profile,
            ("/bin/sh", "-c", _WITH_FILE, file, *command, file),
            stdin=given.fileno(),
            stdout=found.fileno(),
            stderr=said.fileno(),
        )
        try:
            done, _ = await asyncio.wait({box.ended}, timeout=seconds)
            await box.end(patience=0)
        finally:
            box.close()
        if not done:
            return TypeCheck(
                unchecked=phrase("the type checker did not end within {seconds} s", seconds=f"{seconds:g}")
            )
        return _understood(os.pread(found.fileno(), _MOST_OUTPUT, 0), os.pread(said.fileno(), _MOST_OUTPUT, 0))


def _folders_outside(*environment: str) -> list[str]:
    """Folders that modules come from besides this environment's own, such as those of PYTHONPATH."""
    here = {"", os.getcwd()}  # noqa: PTH109 - plain text
    listed = [str(Path(ferrule.__file__).parents[1]), *(one for one in sys.path if one not in here)]
    found = dict.fromkeys(os.path.realpath(one) for one in listed if Path(one).is_dir())
    return [one for one in found if not any(Path(one).is_relative_to(other) for other in environment)]


def _understood(found: bytes, said: bytes) -> TypeCheck:
    try:
        return TypeCheck(tuple(_errors(json.loads(found))))
    except (ValueError, LookupError, TypeError):
        lines = said.decode("utf-8", "replace").strip().splitlines() or ["it gave no answer"]
        return TypeCheck(unchecked=phrase("the type checker failed: {why}", why=lines[0][:300]))


def _errors(findings: Any) -> Iterator[str]:
    errors = [one for one in cast("list[dict[str, Any]]", findings) if one["severity"] == _ERROR]
    for one in errors[:_MOST_NAMED]:
        words = str(one["description"]).removeprefix(f"{one['check_name']}: ").rstrip(".")
        yield f"Line {int(one['location']['positions']['begin']['line'])}: {words}."
    if len(errors) > _MOST_NAMED:
        yield f"{len(errors) - _MOST_NAMED} more errors of types."
