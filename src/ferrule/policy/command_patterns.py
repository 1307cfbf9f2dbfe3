r"""Commands in a rule: `npm run test:*`, `git diff *`, or a command to the letter.

`*` stands for any text, spaces included. A space before the last `*` makes it whole words, and then the command alone
counts too: `ls *` is `ls` and `ls -la`, and not `lsof`; `ls:*` says the same; `ls*` is all three. `\*` is a star.

An allow rule must fit one part of a command as it stands. Deny and ask rules look further, because what they are for
must not be slipped past: at `/bin/rm` for `rm`, at what a command is wrapped in, at flags in another order.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.policy.rule_errors import RuleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferrule.policy.commands.parts import Part

_PLAIN = re.compile(r"[^\s'\"\\]+")
_PIECE = re.compile(r"\\([*\\])|(\*)|(.)", re.DOTALL)
_STAR = "\0"  # stands for `\*` while a pattern is taken apart; no command holds one
_OPERATOR = re.compile(r"[|&;<>\n]")
# What a command may be wrapped in and still be the same command, on the same machine, for the same person.
HARMLESS_WRAPPERS = frozenset(
    {"env", "nice", "nohup", "timeout", "time", "stdbuf", "command", "builtin", "ionice", "setsid"}
)
_SAME_FLAG = {"--recursive": "-r", "-R": "-r", "--force": "-f"}


class CommandPattern:
    """The commands that a rule is about."""

    __slots__ = ("_flags", "_program", "_rest", "_shape", "_whole", "exact", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        stripped = text.strip()
        if not stripped:
            raise RuleError(phrase("nothing stands in the brackets; leave them out to mean every command"))
        self._whole = _unescaped(stripped)
        self.exact = self._whole is not None
        body = stripped[:-2] + " *" if stripped.endswith(":*") and stripped != ":*" else stripped.removeprefix(":")
        body = body.replace("\\*", _STAR)
        words = _words(body)
        self._shape = _compiled(join_words(words) if words is not None else body)
        self._program, self._flags, self._rest = "", frozenset[str](), None
        if words and len(words) > 1 and "*" not in words[0]:
            flags, rest = _flags_of(words[1:])
            if flags and not any("*" in flag for flag in flags):
                self._program, self._flags, self._rest = words[0], flags, _compiled(join_words(rest) or "*")

    @property
    def everything(self) -> bool:
        return self.text.strip() in ("*", ":*")

    @property
    def spans_parts(self) -> bool:
        """Whether it holds `&&`, `|`, `>` or the like outside quotes, which no single part of a command does."""
        return not self.exact and bool(_OPERATOR.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", self.text)))

    def is_whole(self, command: str) -> bool:
        """Whether it is this very command, to the letter."""
        return self._whole == command.strip()

    def covers(self, part: Part) -> bool:
        """Whether an allow rule reaches this part."""
        if not part.words or not HARMLESS_WRAPPERS.issuperset(part.wrappers):
            return False
        return self.everything or bool(self._shape.fullmatch(join_words(part.words)))

    def concerns(self, part: Part, command: str) -> bool:
        """Whether a deny or ask rule is about this part, however it is written."""
        if self.everything:
            return True
        for text in (*_forms(part), part.text.strip(), command.strip()):
            if self._shape.fullmatch(text) or self._whole == text:
                return True
        return self._fits_loosely(part)

    def concerns_text(self, command: str) -> bool:
        """The same where nothing is known but the text."""
        return self.everything or self.is_whole(command) or bool(self._shape.fullmatch(command.strip()))

    def matches_text(self, text: str) -> bool:
        """Whether it fits a text that is no command, such as what a tool says of its call."""
        return self._whole == text.strip() or bool(self._shape.fullmatch(text.strip()))

    def _fits_loosely(self, part: Part) -> bool:
        """`rm -rf *` means `rm -r -f x` and `rm x --force -R` too."""
        if self._rest is None or part.program != self._program:
            return False
        flags, rest = _flags_of(part.words[1:])
        return self._flags <= flags and bool(self._rest.fullmatch(join_words(rest)))


def join_words(words: Iterable[str]) -> str:
    """Words as one text that only these words give: one that holds a space stands in quotes."""
    return " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in words)


def escape_command(command: str) -> str:
    """The pattern that means just this command."""
    return re.sub(r"([*\\])", r"\\\1", command.strip())


def _unescaped(pattern: str) -> str | None:
    """The text that a pattern without `*` means; None when it has one."""
    if pattern.endswith(":*"):
        return None
    out: list[str] = []
    for escaped, star, other in _PIECE.findall(pattern):
        if star:
            return None
        out.append(escaped or other)
    return "".join(out)


def _words(body: str) -> list[str] | None:
    try:
        return shlex.split(body)
    except ValueError:
        return None  # quotes that do not end: taken as it stands


def _compiled(body: str) -> re.Pattern[str]:
    alone = body.endswith(" *") and body.count("*") == 1
    body = body[:-2] if alone else body
    out = "".join(".*" if letter == "*" else r"\*" if letter == _STAR else re.escape(letter) for letter in body)
    return re.compile(out + (r"(?:\s.*)?" if alone else ""), re.DOTALL)


def _forms(part: Part) -> Iterator[str]:
    """A part as it may be meant: as it stands, by the program's own name, and with each of its wrappers."""
    yield join_words(part.words)
    if not part.words:
        return
    plain = (part.program, *part.words[1:])
    yield join_words(plain)
    for first in range(len(part.wrappers)):
        yield join_words((*part.wrappers[first:], *plain))


def _flags_of(words: Sequence[str]) -> tuple[frozenset[str], list[str]]:
    """Flags one by one, `-rf` as `-r` and `-f`, and the other words."""
    flags: set[str] = set()
    rest: list[str] = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name = word.partition("=")[0]
            flags.add(_SAME_FLAG.get(name, name))
        elif re.fullmatch(r"-[A-Za-z]{1,3}", word):
            flags |= {_SAME_FLAG.get(f"-{letter}", f"-{letter}") for letter in word[1:]}
        elif word.startswith("-") and len(word) > 1:
            flags.add(word)
        else:
            rest.append(word)
    return frozenset(flags), rest
