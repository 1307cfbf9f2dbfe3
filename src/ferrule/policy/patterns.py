"""The patterns of rules: paths, hosts and commands.

Paths go by the ways of `.gitignore`. `//etc/**` starts at the root of the file system, `~/.ssh/**` at the home,
`/src/**` at the folder of the project's settings, `./src/**` and `src/**` at the workspace. A name without a slash, or
after `**/`, means it at any depth. `*` and `?` stay within a name, `**` spans folders, `[a-z]` chooses; a folder's name
with `/` at the end is all in it. Deny and ask rules hold for a path and all below it, and a bare name wherever it lies.
Allow rules must fit the path itself, and a bare name counts below the workspace alone. All of it is about where a file
really is, links followed.

In a command `*` stands for any text, spaces included. A space before the last `*` makes it whole words, and then the
command alone counts too: `ls *` is `ls` and `ls -la`, and not `lsof`; `ls:*` says the same; `ls*` is all three. A `*`
after a backslash is a star. An allow rule must fit one part of a command as it is typed. Deny and ask rules look
further, because what they are for must not be slipped past: at `/bin/rm` for `rm`, at what a command is wrapped in,
past options that stand between (`git -C . push`), at flags in another order, and at all that words may turn out to be
which are only known at run time.
"""

from __future__ import annotations

import os
import re
import shlex
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import phrase
from ferrule.policy.commands.parts import PRINTERS, Guess, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferrule.policy.commands.parts import Part


class RuleError(ValueError):
    """A rule that could never do what its author meant; says why, and what to write instead."""


_SPECIAL = lazy_pattern(r"[*?\[\\]")


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
        elif body.startswith("**/") or ("/" not in body.rstrip("/") and body.rstrip("/") not in (".", "..")):
            self.anywhere, body = True, body.removeprefix("**/")
        self._anchor = anchor
        self._body = f"{body}**" if body.endswith("/") or not body else body.removeprefix("./") or "**"

    def covers(self, path: str, roots: Sequence[str]) -> bool:
        """Whether an allow rule reaches this real path. `roots` are the workspace's, its own first."""
        return any(shape.strict.fullmatch(path) for shape in self._shapes(roots, allow=True))

    def covers_all_in(self, folder: str, roots: Sequence[str]) -> bool:
        """Whether an allow rule reaches everything below this real folder."""
        return any(shape.all_below and shape.wide.fullmatch(folder) for shape in self._shapes(roots, allow=True))

    def concerns(self, path: str, roots: Sequence[str]) -> bool:
        """Whether a deny or ask rule is about this real path."""
        return any(shape.concerns(path) for shape in self._shapes(roots, allow=False))

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
            parts = [part.lower() for part in self._body.split("/") if part.strip("*?")]
            return any(fnmatchcase(name, part) for name in names for part in parts)
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

    @property
    def inner(self) -> str | None:
        """The regular expression of what it is about at any depth, from a `/` on; None if it starts somewhere."""
        top = self._body.removesuffix("/**")
        return _translate(top) if self.anywhere and top and top != "**" else None

    @property
    def last(self) -> str:
        """The regular expression of the last name in `inner`."""
        return _translate(self._body.removesuffix("/**").rpartition("/")[2])

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
            starts = (_home(os.environ.get("HOME")) if self._anchor == "~" else self._anchor,)
        else:
            starts = tuple(roots[:1])
        return _compiled(starts, self._body, self.anywhere, allow)


class _Shape:
    """A pattern from one folder on, ready to be compared with."""

    __slots__ = ("_name", "all_below", "base", "strict", "wide")

    def __init__(self, start: str, body: str, *, anywhere: bool) -> None:
        fixed, rest = ("", body) if anywhere else _fixed_part(body)
        self.base = os.path.normpath(os.path.join(start, fixed)) if fixed else start  # noqa: PTH118 - pure text
        before = "" if self.base == "/" else re.escape(self.base)
        self.all_below = rest == "**" or rest.endswith("/**")
        top = rest[:-2].rstrip("/") if self.all_below else rest
        way = before if not top else f"{before}/(?:.*/)?" if anywhere else f"{before}/"
        shape = way + _translate(top)
        self.strict = lazy_pattern(f"{shape}/.+" if self.all_below else shape if rest else f"{before}", re.DOTALL)
        self.wide = lazy_pattern(f"{shape}(?:/.*)?", re.DOTALL)
        self._name = f"/{top}/" if anywhere and top and not _SPECIAL.search(top) else ""

    def concerns(self, path: str) -> bool:
        """Whether `wide` fits, without compiling it for a plain name, as most rules have."""
        return self._name in f"{path}/" if self._name else self.wide.fullmatch(path) is not None


@lru_cache(maxsize=8)
def _home(_variable: str | None) -> str:
    """Asked of every path for every rule."""
    return os.path.realpath(Path.home())


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
        raise RuleError(phrase("the brackets are empty; leave them out to mean the tool, or write `**` for all paths"))
    if "\0" in body:
        raise RuleError(phrase("the path contains a NUL byte, which no path can"))
    if body.startswith("!"):
        raise RuleError(phrase("a rule cannot have `!` exceptions; put what is allowed in another list"))
    if body.startswith("~") and body != "~" and not body.startswith("~/"):
        raise RuleError(
            phrase(
                "`{name}` is no user's home here; write `~/…`, or `//` and the whole path", name=body.partition("/")[0]
            )
        )
    if variable := re.match(r"\$(?:\w+|\{\w+\})(?=/|$)", body):
        raise RuleError(
            phrase(
                "`{name}` is not filled in; write `~/…`, or `//` and the whole path, or `[$]` for the sign itself",
                name=variable[0],
            )
        )
    if re.search(r"(?<!\\)[{}]", body):
        raise RuleError(
            phrase("`{a,b}` does not choose in a path; write a rule for each, or `[{]` for the brace itself")
        )
    if body.endswith("\\") and not body.endswith("\\\\"):
        raise RuleError(phrase("it ends with a backslash that escapes nothing"))
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
_HOST = lazy_pattern(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\*|\[[0-9a-f:.]+\]")


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


# Commands in a rule: `npm run test:*`, `git diff *`, or a command to the letter.


_PLAIN = lazy_pattern(r"[^\s'\"\\]+")
_PIECE = lazy_pattern(r"\\([*\\])|(\*)|(.)", re.DOTALL)
_STAR = "\0"  # stands for `\*` while a pattern is taken apart; no command holds one
_OPERATOR = lazy_pattern(r"[|&;<>\n]")
_GIT_COMMANDS = names("""
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
""")  # fmt: skip
"""What git runs by itself; any other word may be an alias of the repository's."""
_GIT_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"})
_MOST_TOKENS, _LONGEST_COMMAND = 2_000, 20
_SAME_FLAG = {"--recursive": "-r", "-R": "-r", "--force": "-f"}


class CommandPattern:
    """The commands that a rule is about."""

    __slots__ = ("_alone", "_body", "_flags", "_program", "_rest", "_shape", "_starts", "_whole", "exact", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        stripped = text.strip()
        if not stripped:
            raise RuleError(phrase("the brackets are empty; leave them out to mean every command"))
        self._whole = _unescaped(stripped)
        self.exact = self._whole is not None
        body = stripped[:-2] + " *" if stripped.endswith(":*") and stripped != ":*" else stripped.removeprefix(":")
        body = body.replace("\\*", _STAR)
        try:
            words = shlex.split(body)
        except ValueError:
            words = None  # quotes that do not end: taken as it stands
        self._shape = _compiled_command(join_words(words) if words is not None else body)
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

    def matches_text(self, text: str, *, any_case: bool = False) -> bool:
        """Whether it fits a text that is no command, such as what a tool says of its call."""
        text = text.strip()
        if any_case:
            whole = self._whole is not None and self._whole.lower() == text.lower()
            return whole or bool(re.fullmatch(self._shape.pattern, text, re.DOTALL | re.IGNORECASE))
        return self._whole == text or bool(self._shape.fullmatch(text))

    def _is_in_arguments(self, part: Part) -> bool:
        """Whether a program that may run what it is given is given this command: `awk 'BEGIN{system("…")}'`."""
        from ferrule.policy.commands.wrappers import wraps

        # Two words that follow each other are hardly anything but a command, whatever program is given them.
        several = " " in self._body.removesuffix(" *") and part.program not in PRINTERS and not wraps(part.program)
        tokenised = [list(part.words[1:])] if several else []
        for between in (r"[^\w./~-]+", r"[^\w.~-]+"):  # with paths whole, and as in `s/x/git push/e`
            tokenised += [[token for token in re.split(between, text)[:_MOST_TOKENS] if token] for text in part.carries]
        for tokens in tokenised:
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


def _compiled_command(body: str) -> re.Pattern[str]:
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
            following = words[at + 1] if at + 1 < len(words) else ""
            takes = words[0] == "git" and word in _GIT_VALUED and getattr(following, "single", True)
            reached[at + 1] |= set[int]() if takes else between
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
