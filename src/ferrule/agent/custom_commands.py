"""Commands and skills that a project or the user wrote in Markdown, in the folders that other assistants use too.

They are words for the model and nothing more: front matter that names tools or models grants nothing, and a `!` line
runs nothing. The user's own files come before a project's of the same name, which could otherwise stand in for them.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from ferrule.agent.system_prompt import project_folders, text_within
from ferrule.core.access import NOTHING
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.nearest import nearest
from ferrule.core.phrases import phrase
from ferrule.core.tool import Kind, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ferrule.core.context import ToolContext


COMMAND_FOLDERS = (
    ".ferrule/commands", ".claude/commands", ".opencode/command", ".opencode/commands", ".codex/prompts",
    ".gemini/commands",
)  # fmt: skip
SKILL_FOLDERS = (
    ".ferrule/skills", ".agents/skills", ".claude/skills", ".codex/skills", ".gemini/skills", ".opencode/skill",
    ".opencode/skills",
)  # fmt: skip
NAME = re.compile(r"[\w-]+(?::[\w-]+)*")
_PLAIN = re.compile(r"^(?P<key>[\w-]+)[ \t]*:[ \t]*(?P<value>.*?)[ \t]*$", re.MULTILINE)
_HEAD = re.compile(r"\A---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PLACE = re.compile(
    r"\$ARGUMENTS\[(?P<index>\d{1,2})\]|\$(?P<all>ARGUMENTS)\b|\$(?P<at>[1-9])(?!\d)|(?P<args>\{\{args\}\})"
    r"|(?P<folder>\$\{CLAUDE_SKILL_DIR\})"
)
_RUNS = re.compile(r"!`[^`\n]+`|!\{[^}\n]+\}")
_MOST_FILES = 500
_MOST_ABOUT = 300
_FRESH = 2.0


@dataclass(slots=True, frozen=True)
class CustomCommand:
    """One file: what `/name` gives the model, with the arguments put in."""

    name: str
    about: str
    takes: str
    body: str
    file: Path
    skill: bool = False
    for_user: bool = True
    """Whether the user can give it as a command."""
    for_model: bool = False
    """Whether the model may ask for it by itself, as for most skills."""

    def message(self, arguments: str) -> str:
        """What the model reads."""
        head = f"[The user gave the command `/{self.name}`, whose text from `{self.file}` follows. It permits nothing.]"
        return "\n\n".join([head, self.text(arguments)])

    def text(self, arguments: str = "") -> str:
        """The file's words, with arguments in their places, or at the end where it has none for them."""
        words = _words(arguments)

        named = 0

        def put(found: re.Match[str]) -> str:
            nonlocal named
            if found["folder"]:
                return str(self.file.parent)
            named += 1
            if found["all"] or found["args"]:
                return arguments
            at = int(found["index"]) if found["index"] else int(found["at"]) - 1
            return words[at] if at < len(words) else ""

        parts = [_PLACE.sub(put, self.body.strip())]
        if arguments and not named:
            parts.append(f"Arguments: {arguments}")
        if _RUNS.search(self.body):
            parts.append("[What is marked with `!` was not run; run what you need of it with Bash.]")
        return "\n\n".join(parts)


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a quote without its end, as in "don't"
        return arguments.split()


class CustomCommands:
    """All that a workspace and its user have, looked for again when a moment has passed.

    `own` is the user's folder of Ferrule's settings; `denied` says of a real path that a rule forbids to read it.
    """

    def __init__(self, workspace: Path, own: Path, denied: Callable[[Path], bool] = lambda path: False) -> None:
        self._workspace = workspace
        self._own = own
        self._denied = denied
        self._found: dict[str, CustomCommand] = {}
        self._looked: float | None = None

    def all(self) -> Mapping[str, CustomCommand]:
        """By name; the user's own before the project's, and what is nearest to the workspace before what is above."""
        if self._looked is None or monotonic() - self._looked > _FRESH:
            self._found = {}
            for one in self._look():
                self._found.setdefault(one.name, one)
            self._looked = monotonic()
        return self._found

    def for_user(self) -> list[CustomCommand]:
        """Those that can be given as `/name`, by name."""
        return sorted((one for one in self.all().values() if one.for_user), key=lambda one: one.name)

    def skills(self) -> list[CustomCommand]:
        """Those that the model may ask for by itself."""
        return [one for one in self.all().values() if one.for_model]

    def _look(self) -> Iterator[CustomCommand]:
        home, anywhere = Path.home(), Path(Path.home().anchor)  # the user's own may be links, to wherever they like
        yield from self._in(self._own, anywhere, ("commands",), ("skills",))
        yield from self._in(home, anywhere, COMMAND_FOLDERS, SKILL_FOLDERS)
        yield from self._in(home / ".config/opencode", anywhere, ("command", "commands"), ("skill", "skills"))
        folders = project_folders(Path(os.path.realpath(self._workspace)))
        for folder in folders:
            yield from self._in(folder, folders[-1], COMMAND_FOLDERS, SKILL_FOLDERS)

    def _in(
        self, folder: Path, root: Path, commands: tuple[str, ...], skills: tuple[str, ...]
    ) -> Iterator[CustomCommand]:
        for place in commands:
            for file in _files(folder / place, ("**/*.md", "**/*.toml")):
                name = ":".join(file.relative_to(folder / place).with_suffix("").parts)
                if made := self._read(file, root, name, skill=False):
                    yield made
        for place in skills:
            for file in _files(folder / place, ("*/SKILL.md",)):
                if made := self._read(file, root, file.parent.name, skill=True):
                    yield made

    def _read(self, file: Path, root: Path, name: str, *, skill: bool) -> CustomCommand | None:
        text = text_within(file, root, self._denied)
        if text is None:
            return None
        about, body = _toml(text) if file.suffix == ".toml" else _markdown(text)
        named = str(about.get("name") or "") if skill else ""
        name = named if NAME.fullmatch(named) else name
        if not NAME.fullmatch(name) or not body.strip():
            return None
        first = next((line.strip("# ") for line in body.splitlines() if line.strip("# ")), "")
        return CustomCommand(
            name,
            " ".join(str(about.get("description") or first).split())[:_MOST_ABOUT],
            _hint(about.get("argument-hint")),
            body,
            file,
            skill,
            for_user=about.get("user-invocable") not in (False, "false"),
            for_model=skill and about.get("disable-model-invocation") not in (True, "true"),
        )


def _files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    try:
        found = [file for pattern in patterns for file in folder.glob(pattern)] if folder.is_dir() else []
    except OSError:  # a folder that cannot be listed has none
        return []
    return sorted(found)[:_MOST_FILES]


def _markdown(text: str) -> tuple[Mapping[str, Any], str]:
    """What the front matter says, and the rest. Much of it out there is no YAML (`argument-hint: [a] [b]`): then its
    lines are taken as they are.
    """
    text = text.removeprefix("\ufeff")
    head = _HEAD.match(text)
    if head is None:
        return {}, text
    from ferrule.toolbox.front_matter import properties

    try:
        about: Mapping[str, Any] = properties(text)
    except (ToolError, ImportError):
        about = {one["key"]: one["value"].strip("\"'") for one in _PLAIN.finditer(head["yaml"])}
    return about, text[head.end() :]


def _toml(text: str) -> tuple[Mapping[str, Any], str]:
    try:
        about = tomllib.loads(text)
    except ValueError:
        return {}, ""
    return about, str(about.get("prompt") or "")


def _hint(said: Any) -> str:
    """`[file]` in YAML is a list; it was meant as words."""
    words = f"[{', '.join(map(str, said))}]" if isinstance(said, list) else str(said or "")  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return " ".join(words.split())[:60]


class SkillParams(BaseModel):
    """Which skill."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: str = Field(min_length=1, max_length=200, description="The skill's name, as listed.")


class SkillTool(Tool[SkillParams]):
    """Read the instructions of a skill.

    Use this when a task fits the description of one of the skills you were told of, before you begin.
    """

    name = "Skill"
    category = "agent"
    tags = frozenset({"agent"})
    kind = Kind.READONLY
    touches = NOTHING  # what it gives was read already, by the same rules
    signature = "{name}"
    doing = "using the skill `{name}`"

    def __init__(self, commands: CustomCommands) -> None:
        super().__init__()
        self._commands = commands

    async def run(self, params: SkillParams, context: ToolContext) -> str:
        known = {one.name: one for one in self._commands.skills()}
        skill = known.get(params.name)
        if skill is None:
            close = nearest(params.name, known, most=1)
            raise ToolError(
                phrase("There is no skill `{name}`.", name=params.name),
                kind=ErrorKind.NOT_FOUND,
                suggestion=phrase("Did you mean `{name}`?", name=close[0])
                if close
                else phrase("The skills are: {names}.", names=", ".join(known)),
            )
        return f"[The skill `{skill.name}`. Its files are in `{skill.file.parent}`.]\n\n{skill.text()}"

    def display(self, value: str) -> str:
        return phrase("read {n} characters", n=f"{len(value):,}")
