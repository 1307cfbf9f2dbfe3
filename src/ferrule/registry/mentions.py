"""What a request names: quoted texts, paths, globs, addresses, names of code, numbers. In English and in Chinese."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Named(StrEnum):
    """What kind of thing a mention is; an earlier kind wins where two begin at the same place."""

    QUOTED = "quoted"
    COMMAND = "command"
    URL = "url"
    GLOB = "glob"
    FILE = "file"
    FOLDER = "folder"
    CODE = "code"
    NUMBER = "number"


@dataclass(slots=True, frozen=True)
class Mention:
    """One thing that is named, and where it stands; `start` and `end` count its quotes too."""

    kind: Named
    text: str
    start: int
    end: int


_MOST = 4000
_WORD = r"[A-Za-z0-9_~@+.\-]"
_FORMS: tuple[tuple[Named, str], ...] = (
    (
        Named.QUOTED,
        (
            r'`(?P<tick>[^`\n]+)`|"(?P<double>[^"\n]+)"|“(?P<curly>[^”\n]+)”|「(?P<corner>[^」\n]+)」|『(?P<white>[^』\n]+)』'
            r"|(?<![A-Za-z0-9])'(?P<single>[^'\n]+)'(?![A-Za-z0-9])|‘(?P<bent>[^’\n]+)’"
        ),
    ),
    (
        Named.COMMAND,
        (
            r"\b(?:[Rr]un|[Ee]xecute)\s+(?:the\s+|this\s+)?(?:shell\s+)?command:?\s+(?P<typed>[a-z./~][ -~]*)"
            r"|(?:运行|执行)(?:命令)?[:：]?\s*(?P<given>[a-z./~][ -~]*)"
        ),
    ),
    (Named.URL, r"https?://[^\s<>\"'，。；、）)]+"),
    (Named.GLOB, r"[A-Za-z0-9_./\-]*[*][A-Za-z0-9_./*?{},\[\]\-]*"),
    (
        Named.FILE,
        (
            rf"(?:[A-Za-z]:)?/?(?:{_WORD}+/)*{_WORD}*[A-Za-z0-9_]\.[A-Za-z][A-Za-z0-9]{{0,9}}(?![A-Za-z0-9_/(])"
            r"|(?<![A-Za-z0-9])(?:Makefile|Dockerfile|Gemfile|Procfile|LICENSE|README|CHANGELOG|CONTRIBUTING)(?![A-Za-z0-9])"
            r"|(?<![A-Za-z0-9])\.[a-z][a-z0-9_.\-]+"
        ),
    ),
    (Named.FOLDER, rf"(?:\.{{1,2}}|~)?/(?:{_WORD}+/?)*|{_WORD}*[A-Za-z0-9_]/(?:{_WORD}+/?)*"),
    (
        Named.CODE,
        (
            r"(?<![A-Za-z0-9])(?:[A-Za-z_][A-Za-z0-9]*_[A-Za-z0-9_]*|[a-z]+[A-Z][A-Za-z0-9]*|[A-Z]{2,}[A-Z0-9_]*"
            r"|[A-Za-z_][A-Za-z0-9_.]*(?=\(\)))(?![A-Za-z0-9])"
        ),
    ),
    (Named.NUMBER, r"(?<![A-Za-z0-9.])\d+(?![A-Za-z0-9]|\.\d)"),
)
_PATTERNS = tuple((kind, re.compile(form)) for kind, form in _FORMS)
_NO_MENTIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "json", "yaml", "html", "css", "csv", "sql", "xml", "pdf"})
_FOLDER_BEFORE = re.compile(
    r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.\-]*)(?:\s+(?:folder|directory|dir)\b|\s*(?:目录|文件夹))", re.IGNORECASE
)
_FOLDER_AFTER = re.compile(
    r"(?:\b(?:folder|directory)\b|目录|文件夹)\s*(?:called |named |叫|名为)?\s*(?P<name>[A-Za-z0-9_][A-Za-z0-9_.\-]*)",
    re.IGNORECASE,
)
_NAMED_WORD = re.compile(
    r"\b(?:word|term|text|string|phrase|symbol|function|class|variable|method)\s+(?P<after>[A-Za-z_][A-Za-z0-9_.\-]*)"
    r"|(?P<before>[A-Za-z_][A-Za-z0-9_.\-]*)\s*(?:这个词|这个字|一词|函数|变量|方法)"
    r"|(?:函数|变量|方法|单词)\s*(?P<zh>[A-Za-z_][A-Za-z0-9_.\-]*)"
)
_BY_WORDS = ((Named.FOLDER, _FOLDER_BEFORE), (Named.FOLDER, _FOLDER_AFTER), (Named.CODE, _NAMED_WORD))
_LOOSE_FOLDER = re.compile(
    r"\b(?:in|inside|under|within|below|of)\s+(?P<in>[A-Za-z0-9_][A-Za-z0-9_\-]*)(?=[\s.?!,]|$)"
    r"|(?P<zh>[A-Za-z0-9_][A-Za-z0-9_\-]*)\s*(?:里|中|下|内)",
    re.IGNORECASE,
)
_NO_NAMES = frozenset(
    """
    a an the this that these those my our your its it here which what current working same whole every each any all
    file files folder folders directory directories code project repo repository case git python is are in of on and
    one two list parent home root called named background detail full total english chinese there order json
    across from for to with or not was were am i do does did contain contains hold holds have has you we
    """.split()  # noqa: SIM905 - a list of so many words is no easier to read
)


def mentions(text: str) -> list[Mention]:
    """Everything that is named, in the order it stands; no two overlap. Of a long text only the beginning is read."""
    text = text[:_MOST]
    taken: list[Mention] = []
    for kind, pattern in _PATTERNS:
        for found in pattern.finditer(text):
            start, end = found.span()
            named = next((one for one in found.groups() if one), found.group())
            if kind is Named.COMMAND:
                start = end - len(named)
            if kind is not Named.QUOTED:
                named, end = _without_full_stop(named, end)
            if (kind is not Named.FOLDER and not named.strip("./")) or named.lower() in _NO_MENTIONS:
                continue
            if all(end <= other.start or start >= other.end for other in taken):
                taken.append(Mention(kind, named, start, end))
    for kind, pattern in _BY_WORDS:
        for found in pattern.finditer(text):
            group = found.lastgroup or ""
            start, end = found.span(group)
            free = all(end <= other.start or start >= other.end for other in taken)
            if free and found[group].lower() not in _NO_NAMES:
                taken.append(Mention(kind, found[group], start, end))
    return sorted(taken, key=lambda one: one.start)


def loose_folders(text: str) -> list[str]:
    """Bare words that stand where a folder would («in tests», «tests 下»): worth a guess, no more."""
    named = [found["in"] or found["zh"] for found in _LOOSE_FOLDER.finditer(without_mentions(text, blank="."))]
    return [one for one in named if one.lower() not in _NO_NAMES]


def without_mentions(text: str, *, blank: str = " ") -> str:
    """The request's own words: what is named is left out, for a file's name says little about what to do with it."""
    kept: list[str] = []
    position = 0
    for one in mentions(text):
        if one.kind is not Named.NUMBER:
            kept.append(text[position : one.start])
            position = one.end
    return blank.join([*kept, text[position:]])


def _without_full_stop(named: str, end: int) -> tuple[str, int]:
    cut = named.rstrip(".,;:!?") if named.strip(".") else named
    return cut, end - (len(named) - len(cut))
