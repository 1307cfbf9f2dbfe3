"""One note as Markdown: its headings, links and tags, where they stand, and how a section of it is edited.

markdown-it finds the blocks, so that what stands in code, comments or math is neither a heading nor a link. Positions
are those of the text as it is written, whatever its lines end with.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import accumulate
from typing import Any, Literal, cast
from unicodedata import normalize
from urllib.parse import unquote

from ferrule import ErrorKind, ToolError
from ferrule.extension import Edit, apply_edits, lines_of, nearest, phrase
from ferrule.toolbox.failures import invalid, not_found
from ferrule.toolbox.front_matter import front_matter_span, properties, quoted_texts

Operation = Literal["create", "append", "prepend", "replace", "delete", "set_properties"]


def alike(name: str) -> str:
    """What names that mean the same have in common: Obsidian looks at neither case nor Unicode form."""
    return name.lower() if name.isascii() else normalize("NFC", normalize("NFC", name).casefold())


@dataclass(slots=True, frozen=True)
class Heading:
    """A heading and its section: `body` is where the text below it starts, `own_end` where the first heading after it
    stands, `end` where its section ends.
    """

    title: str
    level: int
    line: int
    titles: tuple[str, ...]
    """Of the headings above it and its own."""
    start: int
    body: int
    own_end: int
    end: int

    @property
    def path(self) -> str:
        return "/".join(self.titles)


@dataclass(slots=True, frozen=True)
class Link:
    """A link or an embed. `target` is the name or path it gives, decoded; `at` and `until` are where that stands."""

    target: str
    anchor: str
    embed: bool
    line: int
    at: int
    until: int
    form: Literal["wiki", "markdown", "angle"]
    quote: str = ""
    """How the YAML text around it is quoted, where it stands in the front matter."""


# Blocks

_MATH, _NOTE = "$$", "%%"
MOST_CHARACTERS = 4_000_000
"""Of the longest note that is taken apart."""


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    for mark in (_MATH, _NOTE):
        parser.block.ruler.before(
            "fence", f"hidden{mark}", _hidden_block(mark), {"alt": ["paragraph", "reference", "blockquote", "list"]}
        )
    return parser


def _hidden_block(mark: str) -> Any:
    """A rule for what lies between two lines with a mark; a comment that is never closed goes on to the end."""

    def rule(state: Any, first: int, last: int, silent: bool) -> bool:
        start = state.bMarks[first] + state.tShift[first]
        if state.is_code_block(first) or not state.src.startswith(mark, start):
            return False
        if mark in state.src[start + 2 : state.eMarks[first]]:
            return False  # on one line it is part of a paragraph
        line = first + 1
        while line < last and mark not in state.src[state.bMarks[line] : state.eMarks[line]]:
            line += 1
        if line == last and mark == _MATH:
            return False
        if not silent:
            state.line = min(line + 1, last)
            state.push("hidden", "", 0).map = [first, state.line]
        return True

    return rule


# What stands within a paragraph. Whatever comes first and hides is passed over as a whole.

_INLINE = re.compile(
    r"""(?=[\\`%$<!\[\]\#\r\n])(?:  # most characters are none of these
        (?P<escape>\\[!-/:-@\[-`{-~])
      | (?P<code>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))
      | (?P<hidden>%%.*?(?:%%|\Z)|\$\$.+?\$\$|<!--.*?(?:-->|\Z)|\$(?![\s$])[^$\n]*?(?<![\s\\])\$(?!\d))
      | (?P<wiki>!?\[\[(?P<inner>[^\[\]\r\n]+)\]\])
      | (?P<dest>\]\([ \t]*(?:<(?P<angle>[^<>\r\n]*)>|(?P<bare>(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*\))
          (?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*))
          (?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*\))
      | (?P<open>!?\[) | (?P<close>\]) | (?P<blank>(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r))
      | (?<!\S)\#(?P<tag>[^\u2000-\u206F\u2E00-\u2E7F'!"\#$%&()*+,.:;<=>?@^`{|}~\[\]\\\s]+)
    )""",
    re.DOTALL | re.VERBOSE,
)
_NEEDS_BLOCKS = re.compile(r"``|~~~|\$\$|%%|<!--|\]:|(?:\A|[\r\n])(?:[ \t>*+-]*<|[ >]*(?: {4}| {0,3}\t))")
"""What makes it matter where blocks begin: fences, comments, references, HTML, indented code."""
_WITH_TICKS = re.compile(r"[^\r\n]*`[^\r\n]*")
_REFERENCE = re.compile(r"\]:\s*(?:<(?P<angle>[^<>\r\n]*)>|(?P<bare>\S+))")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_PIPE = re.compile(r"\\?\|")
_BLANK = re.compile(r"[ \t]*(?:\r\n|\n|\r|\Z)")
_ENDING = re.compile(r"\r\n|\n|\r")


class Note:
    """A note's text, taken apart as far as is asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        span = front_matter_span(text)
        self.body = span[2] if span else 0

    @cached_property
    def properties(self) -> dict[str, Any]:
        return properties(self.text)

    @cached_property
    def _lines(self) -> list[int]:
        """Where each line starts, and the end."""
        return [0, *accumulate(map(len, lines_of(self.text)))]

    def line_of(self, at: int) -> int:
        return bisect_right(self._lines, at, hi=max(1, len(self._lines) - 1))

    def line_text(self, line: int) -> str:
        return self.text[self._lines[line - 1] : self._lines[line]].strip()

    @cached_property
    def _blocks(self) -> tuple[list[Any], dict[str, Any]]:
        if len(self.text) > MOST_CHARACTERS:
            raise ToolError(
                phrase("The note has more than {most} characters.", most=f"{MOST_CHARACTERS:,}"),
                suggestion=phrase("Use Read, Grep and Edit for it."),
            )
        found: dict[str, Any] = {}
        return _parser().parse(self.text[self.body :], found), found

    def _span(self, rows: Sequence[int]) -> tuple[int, int]:
        first = self.line_of(self.body) - 1 if self.body < len(self.text) else len(self._lines) - 1
        last = len(self._lines) - 1
        return self._lines[min(first + rows[0], last)], self._lines[min(first + rows[1], last)]

    @cached_property
    def regions(self) -> list[tuple[int, int]]:
        """Where text stands that is neither code nor hidden."""
        text = self.text[self.body :]
        if _NEEDS_BLOCKS.search(text) is not None or any(line.count("`") % 2 for line in _WITH_TICKS.findall(text)):
            return self.paragraphs
        return [(self.body, len(self.text))]

    @cached_property
    def paragraphs(self) -> list[tuple[int, int]]:
        """The same, block by block."""
        tokens, _ = self._blocks
        tables = [self._span(one.map) for one in tokens if one.type == "table_open"]
        texts = [self._span(one.map) for one in tokens if one.type == "inline" and one.map]
        inside = [one for one in texts if not any(start <= one[0] < end for start, end in tables)]
        return sorted({*tables, *inside})

    @cached_property
    def headings(self) -> list[Heading]:
        """At the top level: those in quotes and lists have no section."""
        tokens, _ = self._blocks
        found = [
            (int(one.tag[1]), " ".join(tokens[at + 1].content.split()), *self._span(one.map))
            for at, one in enumerate(tokens)
            if one.type == "heading_open" and one.level == 0
        ]
        ends = [len(self.text)] * len(found)
        above: list[int] = []
        chains: list[tuple[str, ...]] = []
        for at, (level, title, start, _) in enumerate(found):
            while above and found[above[-1]][0] >= level:
                ends[above.pop()] = start
            chains.append((*(found[one][1] for one in above), title))
            above.append(at)
        starts = [*(one[2] for one in found[1:]), len(self.text)][: len(found)]
        return [
            Heading(title, level, self.line_of(start), chain, start, body, own_end, end)
            for (level, title, start, body), chain, own_end, end in zip(found, chains, starts, ends, strict=True)
        ]

    @cached_property
    def outline(self) -> list[str]:
        """A path for each heading that means it and no other: `#A/B` from the top, `#A[2]` the second of its name."""
        suffixes = Counter(
            "/".join(map(alike, one.titles[at:])) for one in self.headings for at in range(len(one.titles))
        )
        whole = Counter(alike(one.path) for one in self.headings)
        seen: Counter[str] = Counter()
        paths: list[str] = []
        for one in self.headings:
            name = alike(one.path)
            seen[name] += 1
            number = f"[{seen[name]}]" if whole[name] > 1 else ""
            paths.append(one.path if suffixes[name] == 1 else f"#{one.path}{number}")
        return paths

    def section(self, given: str) -> Heading:
        """The heading that a path means; `ToolError` where there is none, or several."""
        wanted = re.sub(r"^#+\s+", "", " ".join(given.split()))
        number = re.fullmatch(r"(.+)\[(\d+)\]", wanted)
        found = self._matching(wanted) or (self._matching(number[1]) if number else [])
        if number and found and not self._matching(wanted) and 0 < int(number[2]) <= len(found):
            return found[int(number[2]) - 1]
        if len(found) == 1:
            return found[0]
        by_place = dict(zip((one.start for one in self.headings), self.outline, strict=True))
        if found:
            listed = ", ".join(f"`{by_place[one.start]}` (line {one.line})" for one in found[:20])
            raise ToolError(
                phrase("{count} headings fit `{given}`: {listed}.", count=len(found), given=given, listed=listed),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Give one of these paths as `section`."),
                details={"candidates": [by_place[one.start] for one in found]},
            )
        close = nearest(given, self.outline) or self.outline[:20]
        listed = ", ".join(f"`{one}`" for one in close)
        raise not_found(
            phrase("There is no heading `{given}` in this note.", given=given),
            phrase("Its headings: {listed}.", listed=listed) if listed else phrase("It has no headings."),
        )

    def _matching(self, wanted: str) -> list[Heading]:
        whole = wanted.removeprefix("#") if wanted.startswith("#") else None
        for form in (partial(normalize, "NFC"), alike):
            found = [
                one
                for one in self.headings
                if any(form("/".join(one.titles[at:])) == form(wanted) for at in range(len(one.titles)))
                or (whole is not None and form(one.path) == form(whole))
            ]
            if found:
                return found
        return []

    @cached_property
    def links(self) -> list[Link]:
        """Every link to a note or a file, in order; those to the web are left out."""
        found = [
            self._wiki(start + one.start(1), one[1], embed=False, quote=quote)
            for start, end, quote in quoted_texts(self.text)
            for one in re.finditer(r"\[\[([^\[\]\r\n]+)\]\]", self.text[start:end])
        ]
        for start, end in self.regions:
            found += (one for one in self._inline(start, end) if isinstance(one, Link))
        if "]:" in self.text:
            found += self._references()
        return sorted(found, key=lambda one: one.at)

    @cached_property
    def tags(self) -> list[str]:
        """Of the text and of the front matter, each once, without `#`."""
        try:
            given: Any = self.properties.get("tags") or self.properties.get("tag")
        except ToolError:
            given = None
        listed = re.split(r"[,\s]+", given) if isinstance(given, str) else cast("list[Any]", given or ())
        tags = [str(one).lstrip("#") for one in listed if one] if isinstance(given, str | list) else []
        if "#" in self.text:
            for start, end in self.regions:
                tags += (one for one in self._inline(start, end) if isinstance(one, str))
        return list({alike(one): one for one in reversed(tags) if one}.values())[::-1]

    def _inline(self, start: int, end: int) -> Iterator[Link | str]:
        """The links, and the tags as text, of one region."""
        brackets: list[int] = []
        for one in _INLINE.finditer(self.text, start, end):
            kind = one.lastgroup
            if kind == "tag":
                if not one["tag"].strip("/").isdigit() and one["tag"].strip("/"):
                    yield one["tag"].strip("/")
            elif kind == "wiki":
                yield self._wiki(one.start("inner"), one["inner"], embed=one[0][0] == "!")
            elif kind == "open":
                brackets.append(one.start())
            elif kind == "close" and brackets:
                brackets.pop()
            elif kind == "blank":
                brackets.clear()
            elif kind == "dest" and brackets and (link := self._markdown(one, embed=self.text[brackets.pop()] == "!")):
                yield link

    def _wiki(self, at: int, inner: str, *, embed: bool, quote: str = "") -> Link:
        target, _, anchor = _PIPE.split(inner, maxsplit=1)[0].partition("#")
        written = target.rstrip()
        at += len(target) - len(target.lstrip())
        target = written.lstrip()
        decoded = target.replace('\\"', '"').replace("\\\\", "\\") if quote == '"' else target
        decoded = decoded.replace("''", "'") if quote == "'" else decoded
        return Link(decoded, anchor.strip(), embed, self.line_of(at), at, at + len(target), "wiki", quote)

    def _markdown(self, found: re.Match[str], *, embed: bool) -> Link | None:
        form: Literal["markdown", "angle"] = "markdown" if found["angle"] is None else "angle"
        group = "bare" if form == "markdown" else "angle"
        path, _, anchor = found[group].partition("#")
        if _ELSEWHERE.match(found[group]):
            return None
        at = found.start(group)
        target = unquote(html.unescape(_ESCAPED.sub(r"\1", path)))
        return Link(target, unquote(anchor), embed, self.line_of(at), at, at + len(path), form)

    def _references(self) -> Iterator[Link]:
        """`[name]: path.md`, wherever it is used from."""
        _, known = self._blocks
        for one in [*known.get("references", {}).values(), *known.get("duplicate_refs", ())]:
            found = _REFERENCE.search(self.text, *self._span(one["map"]))
            if found and (link := self._markdown(found, embed=False)):
                yield link

    def has_anchor(self, anchor: str) -> bool:
        """Whether `#Heading#Sub` or `#^block` leads anywhere in this note."""
        if anchor.startswith("^"):
            found = re.search(rf"(?:^|\s)\^{re.escape(anchor[1:])}[ \t]*(?:[\r\n]|\Z)", self.text, re.IGNORECASE)
            return found is not None
        wanted = [_plain(one) for one in anchor.split("#") if one]
        for heading in self.headings:
            titles = [_plain(one) for one in heading.titles]
            rest = iter(titles[:-1])
            if wanted and titles[-1] in (wanted[-1], _slug(wanted[-1])) and all(one in rest for one in wanted[:-1]):
                return True
            if len(wanted) == 1 and _slug(titles[-1]) == _slug(wanted[0]):
                return True
        return not wanted


def _plain(heading: str) -> str:
    """A heading as links name it: without the characters that links cannot hold."""
    return " ".join(re.sub(r"[!\"#$%&()*+,.:;<=>?@^`{|}~/\[\]\\]", " ", alike(heading)).split())


def _slug(heading: str) -> str:
    """The same as Markdown readers on the web write it: `#my-heading`."""
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


# Editing


def section_edits(note: Note, operation: Operation, section: str | None, content: str) -> list[Edit]:
    """What to change so that a section, or the note below its front matter, gets the content.

    Refuses content that would change how the rest of the note reads, such as a code block that is never closed.
    """
    text = note.text
    heading = note.section(section) if section is not None else None
    start, limit, end = (heading.body, heading.own_end, heading.end) if heading else (note.body, len(text), len(text))
    content = _ENDING.sub("\n", content)
    if operation == "delete":
        assert heading is not None  # noqa: S101 - the tool refuses it otherwise
        for between in ("", _ending_before(text, heading.start)):  # a blank line, where what is around it needs one
            edits = [Edit(heading.start, heading.end, between)]
            if _keeps_the_rest(note, edits, heading.start, heading.end):
                return edits
        raise invalid(
            phrase("Without this section the rest of the note would read differently. Nothing was changed."),
            phrase("Change it with Edit."),
        )
    starts_section = re.match(r"\s*#{1,6}\s", content) is not None
    if operation == "append":
        at = _text_end(text, start, end if starts_section else limit)
        span = (at, at)
        gap = starts_section and bool(text[start:at].strip())
        rest = end if starts_section else limit
    elif operation == "prepend":
        span, gap, rest = (start, start), False, limit if heading else start
    else:
        at = _text_end(text, start, end)
        leading = start
        while leading < at and (blank := _BLANK.match(text, leading)) and blank.end() <= at:
            leading = blank.end()
        span, gap, rest = (leading, at), False, end
    newline = _ending_before(text, span[0])
    body = content.rstrip("\n").replace("\n", newline) if content.strip("\n") else ""
    unended = span[0] > 0 and text[span[0] - 1] not in "\r\n"
    for before, after in ((newline * gap, ""), ("", newline), (newline, ""), (newline, newline)):
        if not body:
            new = ""
        elif unended:
            new = newline + before + body
        else:
            new = before + body + (newline if span[1] < len(text) or not text or text[-1] in "\r\n" else "") + after
        edits = [Edit(*span, new)]
        if _keeps_the_rest(note, edits, span[0], rest):
            return edits
    raise invalid(
        phrase("The content would change how the rest of the note reads. Nothing was changed."),
        phrase("Close every code block, comment and HTML tag that it opens."),
    )


def _keeps_the_rest(note: Note, edits: list[Edit], first: int, last: int) -> bool:
    """Whether headings before and paragraphs after a span are what they were."""
    after = Note(apply_edits(note.text, edits))
    grown = len(after.text) - len(note.text)
    above = [(one.start, one.titles, one.level) for one in note.headings if one.start < first]
    below = [(one.start + grown, one.title, one.level) for one in note.headings if one.start >= last]
    return (
        above == [(one.start, one.titles, one.level) for one in after.headings if one.start < first]
        and below == [(one.start, one.title, one.level) for one in after.headings if one.start >= last + grown]
        and [(start + grown, end + grown) for start, end in note.paragraphs if start >= last]
        == [one for one in after.paragraphs if one[0] >= last + grown]
        and after.body == note.body
    )


def _text_end(text: str, start: int, end: int) -> int:
    """Where the last line with something on it ends."""
    at = start
    for line in lines_of(text[start:end]):
        start += len(line)
        if line.strip():
            at = start
    return at


def _ending_before(text: str, at: int) -> str:
    """How the line before a position ends, or the first of all."""
    before = re.search(r"(?:\r\n|\n|\r)\Z", text[max(0, at - 2) : at])
    found = before or _ENDING.search(text)
    return found[0] if found else "\n"
