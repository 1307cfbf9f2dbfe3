"""A rule: `Tool`, or `Tool(specifier)` for some of what a tool can do.

The names before the brackets are kinds of resource. `Bash(…)` is about commands, whichever tool runs them; `Read(…)`
about every read of a path, by Read, Grep or `cat`; `Edit(…)` and `Write(…)` about every write of one; and
`WebFetch(domain:…)` about every host. Any other tool's brackets hold what the tool itself says of a call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.pipeline.stages import Verdict
from ferrule.policy.command_patterns import CommandPattern
from ferrule.policy.path_patterns import HostPattern, PathPattern
from ferrule.policy.sources import RuleError, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FORM = re.compile(r"(?P<tool>[^\s()]+)(?:\((?P<inner>.*)\))?", re.DOTALL)
_MCP = "mcp__"
BASH = "Bash"
READ = "Read"
EDITS = ("Edit", "Write")
FETCH = "WebFetch"
# Tools that reach paths under names of their own. Their rules would look as if they held for one tool alone.
_FILE_TOOLS = {
    **dict.fromkeys(("Grep", "Glob", "LS", "readFile", "listFiles", "searchFiles", "NotebookRead"), READ),
    **dict.fromkeys(("MultiEdit", "FileSearch", "NotebookEdit"), "Edit"),
}


class About(StrEnum):
    """What a rule looks at."""

    TOOL = "tool"
    COMMAND = "command"
    READ = "read"
    WRITE = "write"
    HOST = "host"
    CALL = "call"
    """What a tool says of a call (its signature), or the command it runs."""


@dataclass(slots=True, frozen=True)
class Rule:
    """One line of a permission list, understood. `verdict` is the list it stands in."""

    verdict: Verdict
    text: str
    tool: str
    about: About
    source: Source
    command: CommandPattern | None = None
    path: PathPattern | None = None
    host: HostPattern | None = None

    @property
    def words(self) -> str:
        """The rule and where it stands, for a model."""
        return phrase("`{rule}` from {source}", rule=self.text, source=self.source.words)

    def names(self, tool: str) -> bool:
        """Whether its name is this tool's: the same, with `*`, or the MCP server that the tool is of."""
        if "*" in self.tool:
            return fnmatchcase(tool, self.tool)
        return tool == self.tool or (_is_server(self.tool) and tool.startswith(f"{self.tool}__"))


def parse_rule(text: object, verdict: Verdict = Verdict.ALLOW, source: Source | None = None) -> Rule:
    """Read a rule; raises `RuleError` for one that could never match."""
    source = source or Source()
    if not isinstance(text, str) or not text.strip():
        raise RuleError(phrase("{text} is no rule; write `Tool` or `Tool(specifier)`", text=repr(text)))
    text = text.strip()
    found = _FORM.fullmatch(text)
    if found is None:
        raise RuleError(
            phrase("it is not written as `Tool` or `Tool(specifier)`, with nothing before, between or after")
        )
    tool, inner = found["tool"], found["inner"]
    if inner is None:
        return Rule(verdict, text, tool, About.TOOL, source)
    if not inner.strip():
        raise RuleError(phrase("nothing stands in the brackets; write `{tool}` to mean every call of it", tool=tool))
    if "*" in tool:
        raise RuleError(phrase("a name with `*` stands alone, without brackets"))
    if tool.startswith(_MCP):
        raise RuleError(phrase("a tool of an MCP server takes no brackets; write `{tool}`", tool=tool))
    if tool in _FILE_TOOLS:
        raise RuleError(
            phrase(
                "rules for paths hold for every tool; write `{kind}({inner})`",
                kind=_FILE_TOOLS[tool],
                inner=inner,
            )
        )
    if tool == FETCH:
        return Rule(verdict, text, tool, About.HOST, source, host=HostPattern(inner))
    if tool == READ or tool in EDITS:
        path = PathPattern(inner, source.root)
        return Rule(verdict, text, tool, About.READ if tool == READ else About.WRITE, source, path=path)
    command = CommandPattern(inner)
    if verdict is Verdict.ALLOW and command.spans_parts:
        raise RuleError(
            phrase(
                "each part of a command is looked at on its own, so none ever holds `&&`, `|`, `;` or `>`; write a "
                "rule for each part, and `Edit(path)` for what is written to"
            )
        )
    if tool == BASH and command.everything:
        return Rule(verdict, text, tool, About.TOOL, source)
    return Rule(verdict, text, tool, About.COMMAND if tool == BASH else About.CALL, source, command=command)


def parse_rules(texts: Iterable[str], verdict: Verdict, source: Source | None = None) -> list[Rule]:
    """Rules of one list; an error names the rule."""
    listed = [texts] if isinstance(texts, str) else list(texts)
    return [named(text, lambda text=text: parse_rule(text, verdict, source)) for text in listed]


def named(text: object, parse: Callable[[], Rule]) -> Rule:
    """The rule that `parse` gives, or its error with the rule's text before it."""
    try:
        return parse()
    except RuleError as error:
        raise RuleError(phrase("The rule `{text}` cannot work: {error}.", text=text, error=error)) from None


def _is_server(name: str) -> bool:
    return name.startswith(_MCP) and "__" not in name.removeprefix(_MCP)
