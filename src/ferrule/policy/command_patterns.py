r"""Commands in a rule: `npm run test:*`, `git diff *`, or a command to the letter.

`*` stands for any text, spaces included. A space before the last `*` makes it whole words, and then the command alone
counts too: `ls *` is `ls` and `ls -la`, and not `lsof`; `ls:*` says the same; `ls*` is all three. `\*` is a star.

An allow rule must fit one part of a command as it is typed. Deny and ask rules look further, because what they are for
must not be slipped past: at `/bin/rm` for `rm`, at what a command is wrapped in, past options that stand between
(`git -C . push`), at flags in another order, and at all that words may turn out to be which are only known at run time.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.policy.commands.parts import Guess, names
from ferrule.policy.sources import RuleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferrule.policy.commands.parts import Part

_PLAIN = re.compile(r"[^\s'\"\\]+")
_PIECE = re.compile(r"\\([*\\])|(\*)|(.)", re.DOTALL)
_STAR = "\0"  # stands for `\*` while a pattern is taken apart; no command holds one
_OPERATOR = re.compile(r"[|&;<>\n]")
_GIT_COMMANDS = frozenset(names("""
    add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore
    check-mailmap check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column commit
    commit-graph commit-tree config count-objects credential credential-cache credential-store daemon describe
    diagnose diff diff-files diff-index diff-tree difftool fast-export fast-import fetch fetch-pack
    filter-branch filter-repo fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id
    grep gui hash-object help hook http-backend imap-send index-pack init instaweb interpret-trailers lfs log
    ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-tree
    mergetool mktag mktree multi-pack-index mv name-rev notes p4 pack-objects pack-refs patch-id prune
    prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote repack
    replace replay request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack shortlog
    show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule subtree svn
    switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info upload-archive
    upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree write-tree
"""))  # fmt: skip
"""What git runs by itself; any other word may be an alias of the repository's."""
_GIT_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"})
_GIT_RUNS = frozenset({"foreach", "run", "-x", "--exec", "filter-branch", "difftool", "mergetool"})
_RUN_TEXT = re.compile(
    r"g?sed|[gmn]?awk|(?:perl|python|pypy|ruby|node|nodejs|php|lua|tclsh)[0-9.]*|deno|bun|expect|n?vim?|ex|ed|emacs|"
    r"script|ssh-agent|tar|make|gdb|m4|osascript|less"
)
"""Programs that run what stands somewhere in their arguments, each in a way of its own."""
_MOST_TOKENS, _LONGEST_COMMAND = 2_000, 20
_SAME_FLAG = {"--recursive": "-r", "-R": "-r", "--force": "-f"}


class CommandPattern:
    """The commands that a rule is about."""

    __slots__ = ("_alone", "_body", "_flags", "_program", "_rest", "_shape", "_starts", "_whole", "exact", "text")

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
        self._starts = words[0] if words and "*" not in words[0] else ""
        self._body = " ".join(words) if words is not None else body
        self._alone = self._body.endswith(" *") and self._body.count("*") == 1
        self._program, self._flags, self._rest = "", frozenset[str](), None
        if words and len(words) > 1 and "*" not in words[0]:
            flags, rest = _flags_of(words[1:])
            if flags and not any("*" in flag for flag in flags):
                self._program, self._flags, self._rest = words[0], flags, " ".join(rest) or "*"

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
        """Whether an allow rule reaches this part: it fits the part as typed, assignments and wrappers included."""
        if not part.words or not part.literal:
            return False
        if self.everything:
            return True
        if not part.plain and self._starts != part.typed[0]:
            return False  # a rule that begins with `*` says nothing of `LD_PRELOAD=… ls`
        return bool(self._shape.fullmatch(join_words(part.typed)))

    def concerns(self, part: Part, command: str) -> bool:
        """Whether a deny or ask rule is about this part, however it is written, or may be once the part runs."""
        if self.everything:
            return True
        for text in (part.text.strip(), command.strip()):
            if self._shape.fullmatch(text) or self._whole == text:
                return True
        if any(_may_match(self._body, words, alone=self._alone) for words in _forms(part)) or self._loosely(part):
            return True
        return bool(self._starts) and self._is_in_arguments(part)

    def concerns_text(self, command: str) -> bool:
        """The same where nothing is known but the text."""
        return self.everything or self.is_whole(command) or bool(self._shape.fullmatch(command.strip()))

    def matches_text(self, text: str) -> bool:
        """Whether it fits a text that is no command, such as what a tool says of its call."""
        return self._whole == text.strip() or bool(self._shape.fullmatch(text.strip()))

    def _is_in_arguments(self, part: Part) -> bool:
        """Whether a program that runs what its arguments say is given this command: `awk 'BEGIN{system("…")}'`."""
        runs = _RUN_TEXT.fullmatch(part.program) or (part.program == "git" and not _GIT_RUNS.isdisjoint(part.words))
        text = " ".join(part.words[1:]) if runs else ""
        for between in (r"[^\w./~-]+", r"[^\w.~-]+"):  # with paths whole, and as in `s/x/git push/e`
            tokens = [token for token in re.split(between, text)[:_MOST_TOKENS] if token]
            for at, token in enumerate(tokens):
                if token.rpartition("/")[2] == self._starts:
                    words = (self._starts, *tokens[at + 1 : at + _LONGEST_COMMAND])
                    ends = range(1, len(words) + 1)
                    if any(_may_match(self._body, words[:end], alone=self._alone) for end in ends):
                        return True
        return False

    def _loosely(self, part: Part) -> bool:
        """`rm -rf *` means `rm -r -f x` and `rm x --force -R` too."""
        if self._rest is None or part.program != self._program:
            return False
        flags, rest = _flags_of(part.words[1:])
        open_ended = any(isinstance(word, Guess) and word.start[:1] in ("", "-") for word in part.words[1:])
        return (self._flags <= flags or open_ended) and _may_match(self._rest, rest)


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


def _forms(part: Part) -> Iterator[Sequence[str]]:
    """A part as it may be meant: as it stands, by the program's own name, and with each of its wrappers."""
    if not part.words:
        return
    yield part.typed
    yield part.words
    plain = (part.program or Guess(part.words[0]), *part.words[1:])  # one that nobody knows may be any
    if part.program == "git":
        plain = _with_alias(plain)
    for first in range(len(part.wrappers) + 1):
        yield (*part.wrappers[first:], *plain)


def _with_alias(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of git, where one that it does not know may be an alias for anything it does."""
    if any(word.lower().startswith("alias.") for word in words):
        return (Guess(""), *words[1:])  # it may be given as a text that a shell runs
    at = 1
    while at < len(words) and words[at].startswith("-") and not isinstance(words[at], Guess):
        at += 1 + (words[at] in _GIT_VALUED)
    if at >= len(words) or isinstance(words[at], Guess) or words[at] in _GIT_COMMANDS:
        return words
    return (*words[:at], Guess(words[at]), *words[at + 1 :])


def _may_match(pattern: str, words: Sequence[str], *, alone: bool = False) -> bool:
    """Whether these words fit a pattern, or may once they are known; options that stand between are passed over.

    Both may hold what is open: `*` in the pattern, and words that are only known at run time. So it goes through the
    words with all places of the pattern at once where it may be by then.
    """
    end = len(pattern)
    start = _opened({0}, pattern)
    # For each word: the places in the pattern before it. An option, and the value behind it, can be left out.
    reached: list[set[int]] = [set() for _ in range(len(words) + 2)]
    reached[0] = start
    for at, word in enumerate(words):
        places = reached[at]
        if not places:
            continue
        reached[at + 1] |= _after(word, places if at == 0 else _consumed(" ", places, pattern), pattern)
        if isinstance(word, Guess):
            reached[at + 1] |= places  # it may turn out to be no word at all
        elif at and word.startswith("-"):
            between = {place for place in places if place != end}
            reached[at + 1] |= between
            if "=" not in word and at + 2 <= len(words):
                reached[at + 2] |= between
    last = reached[len(words)]
    return end in last or (alone and end - 2 in last)


def _after(word: str, places: set[int], pattern: str) -> set[int]:
    """Where a pattern may be after a word."""
    if isinstance(word, Guess):
        for letter in word.start:
            places = _consumed(letter, places, pattern)
        return set(range(min(places), len(pattern) + 1)) if places else places
    for letter in word:
        places = _consumed(letter, places, pattern)
        if not places:
            break
    return places


def _consumed(letter: str, places: set[int], pattern: str) -> set[int]:
    found: set[int] = set()
    for place in places:
        if place < len(pattern):
            here = pattern[place]
            if here == "*":
                found.add(place)
            elif here == letter or (here == _STAR and letter == "*"):
                found.add(place + 1)
    return _opened(found, pattern)


def _opened(places: set[int], pattern: str) -> set[int]:
    """A `*` may stand for nothing."""
    found = set(places)
    for place in places:
        while place < len(pattern) and pattern[place] == "*":
            place += 1
            found.add(place)
    return found


def _flags_of(words: Sequence[str]) -> tuple[frozenset[str], list[str]]:
    """Flags one by one, `-rf` as `-r` and `-f`, and the other words."""
    flags: set[str] = set()
    rest: list[str] = []
    for word in words:
        if isinstance(word, Guess):
            rest.append(word)
        elif word.startswith("--") and len(word) > 2:
            name = word.partition("=")[0]
            flags.add(_SAME_FLAG.get(name, name))
        elif re.fullmatch(r"-[A-Za-z]{1,3}", word):
            flags |= {_SAME_FLAG.get(f"-{letter}", f"-{letter}") for letter in word[1:]}
        elif word.startswith("-") and len(word) > 1:
            flags.add(word)
        else:
            rest.append(word)
    return frozenset(flags), rest
