"""Grep: search the contents of files."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import AliasChoices, Field

from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import glued, phrase
from ferrule.core.problems import Problem
from ferrule.core.result import Output, note_lines, noted
from ferrule.core.shown_text import cut
from ferrule.workspace.files import paths_of, searches
from ferrule.workspace.names import about_names, amount, one_line
from ferrule.workspace.paths import require_file_or_folder
from ferrule.workspace.searching.globs import glob_below, split_globs
from ferrule.workspace.searching.replacement import any_line_ending, names_carriage_return
from ferrule.workspace.searching.search import (
    FileMatches,
    Mode,
    Names,
    Query,
    file_matches,
    in_words,
    left_out,
    search,
    wider,
)

_MOST = 10_000


class GrepResult(TypedDict):
    """`count` counts what the output mode lists, matching lines or files, also those left out.

    `count` and `lines` of a file are filled as the output mode says; a null line is a gap between groups.
    """

    pattern: str
    path: str
    count: int
    output_mode: Mode
    files: list[FileMatches]
    total_files: int
    total_matches: int | None
    line_numbers: bool
    notes: NotRequired[list[str]]


def _render(found: GrepResult) -> str:
    return "\n".join([_summary(found), *_body(found), *note_lines(found)])


def _body(found: GrepResult) -> list[str]:
    numbered = found["line_numbers"]
    if found["output_mode"] == "content":
        return [text for file in found["files"] for text in in_words(file["path"], file["lines"], numbered=numbered)]
    if found["output_mode"] == "count":
        return [f"{one_line(file['path'])}:{file['count']}" for file in found["files"]]
    return [one_line(file["path"]) for file in found["files"]]


def _summary(found: GrepResult) -> str:
    files, lines = found["total_files"], found["total_matches"]
    if not files:
        return f"No match for `{cut(found['pattern'], 100)}` in `{found['path']}`."
    if lines is None:
        return f"Found {amount(files, 'file')} with a match."
    return f"Found {amount(lines, 'matching line')} in {amount(files, 'file')}."


def _display(found: GrepResult) -> str:
    files, lines = found["total_files"], found["total_matches"]
    if not files:
        return phrase("found nothing")
    if lines is None:
        return phrase("found 1 file") if files == 1 else phrase("found {n} files", n=f"{files:,}")
    return glued(found_matches(lines), in_files(files))


def found_matches(count: int) -> str:
    return phrase("found 1 match") if count == 1 else phrase("found {n} matches", n=f"{count:,}")


def in_files(count: int) -> str:
    return phrase(" in 1 file") if count == 1 else phrase(" in {n} files", n=f"{count:,}")


def _check(params: Any) -> list[Problem]:
    if "\0" in params.pattern:
        return [Problem(("pattern",), "value", phrase("it contains a NUL byte; to search for one, write \\x00"))]
    return []


@tool(
    name="Grep",
    display_name="Content Search",
    kind="readonly",
    may_block=False,
    category="files",
    tags=("standard", "files", "search"),
    doing="searching for `{pattern}`",
    timeout=30,
    describe=searches("path"),
    check=_check,
    render=_render,
    display=_display,
)
async def grep(  # noqa: D417 - the context is filled in
    context: ToolContext,
    pattern: Annotated[str, Field(min_length=1, max_length=10_000)],
    path: str = ".",
    glob: Annotated[str | None, Field(validation_alias=AliasChoices("glob", "include"))] = None,
    file_type: Annotated[str | None, Field(alias="type", pattern=r"^[A-Za-z0-9_+-]+$")] = None,
    output_mode: Mode = "files_with_matches",
    after: Annotated[int, Field(alias="-A", ge=0, le=100)] = 0,
    before: Annotated[int, Field(alias="-B", ge=0, le=100)] = 0,
    around: Annotated[int, Field(alias="-C", ge=0, le=100)] = 0,
    ignore_case: Annotated[bool, Field(alias="-i")] = False,
    line_numbers: Annotated[bool, Field(alias="-n")] = True,
    multiline: bool = False,
    head_limit: Annotated[int, Field(ge=0, le=_MOST)] = 200,
) -> Output[GrepResult]:
    r"""Search the contents of files with a regular expression.

    Use this to find where something is written: a name, a message, a setting. To find files by their name use Glob.

    Usage notes:
        - The syntax is ripgrep's: `log.*Error`, `fn\s+\w+`, `\bword\b`. Escape braces and parentheses that are meant
          as they stand: `interface\{\}`, `main\(`. Look-around and backreferences work too, more slowly.
        - Hidden files are searched. `.git`, `node_modules`, binary files, links, and what `.gitignore`, `.ignore` or
          `.ferruleignore` names are not, unless `path` starts there.
        - Results are in order of path. When some are left out, the result says how many.

    Examples:
        - search for "FIXME" in the code: {"pattern": "FIXME"}
        - show the lines that mention timeout in client.py:
          {"pattern": "timeout", "path": "client.py", "output_mode": "content"}

    Args:
        pattern: The regular expression.
        path: The file or folder to search; the working directory unless given.
        glob: Only files that fit, e.g. `*.py`, `src/**/*.{ts,tsx}`, or `!*.min.js` for all but those. Several are
            separated by commas.
        file_type: Only files of a language, e.g. `py`, `js`, `rust`.
        output_mode: `files_with_matches` gives names of files, `content` the lines, `count` the number of matching
            lines of each file.
        after: Lines to show after each match, in `content`.
        before: Lines to show before each match, in `content`.
        around: Lines to show before and after each match, in `content`.
        ignore_case: Whether upper and lower case are the same.
        line_numbers: Whether lines have their numbers before them, in `content`.
        multiline: Whether a match may span lines; `.` then matches line breaks too.
        head_limit: How many matching lines, or files, to show at most; 0 for as many as can be.
    """
    paths = paths_of(context.session)
    place = paths.find(path)
    require_file_or_folder(paths, place)
    globs = tuple(glob_below(one, place) for one in split_globs(glob or ""))
    meant = any_line_ending(pattern) if multiline else pattern
    query = Query(
        meant, place, output_mode, globs, file_type, before or around, after or around, ignore_case, multiline,
        crlf="$" in pattern and not names_carriage_return(pattern),
    )  # fmt: skip
    names = Names(paths, place)
    most = head_limit or _MOST
    left = most

    def show(hits: list[bytes]) -> None:
        nonlocal left
        if left > 0 and context.watched:
            files, shown, _ = file_matches(hits[:left], output_mode, names, left)
            left -= shown
            context.partial("\n".join(_body({**empty, "files": files})))

    empty: GrepResult = {
        "pattern": pattern, "path": place.shown, "count": 0, "output_mode": output_mode, "files": [], "total_files": 0,
        "total_matches": None, "line_numbers": line_numbers,
    }  # fmt: skip
    findings = await search(paths, query, most, show)
    files, shown, cut = file_matches(findings.hits, output_mode, names, most)
    total = findings.matches if output_mode == "content" else findings.files
    noun = "matching lines" if output_mode == "content" else "files"
    notes = left_out(shown, total, noun, "`glob` or `type`", can_raise=not cut)
    notes += [*about_names(file["path"] for file in files), *findings.notes, *place.remarks]
    if not findings.files:
        filters = ["glob"] * bool(glob) + ["type"] * bool(file_type)
        notes += wider(query, pattern, path, "set `-i` to true to ignore case", filters)
        if not pattern.isascii():
            notes.append(
                "Files in UTF-16 are searched where they begin with a byte order mark, and are binary otherwise."
            )
    count = findings.files if output_mode == "files_with_matches" else findings.matches
    found: GrepResult = {
        **empty,
        "count": count,
        "files": files,
        "total_files": findings.files,
        "total_matches": None if output_mode == "files_with_matches" else findings.matches,
    }
    return Output(noted(found, notes), metadata={"pattern": pattern, "path": place.shown, "count": count})
