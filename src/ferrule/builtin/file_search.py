"""FileSearch: search many files, and replace what is found in all of them at once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pydantic import BaseModel, ConfigDict, Field

from ferrule.builtin.grep import found_matches, in_files
from ferrule.core.call import CallInfo
from ferrule.core.context import Session, ToolContext
from ferrule.core.phrases import glued, phrase
from ferrule.core.problems import Problem
from ferrule.core.result import Output, noted
from ferrule.core.shown_text import cut
from ferrule.core.tool import Kind, Tool
from ferrule.workspace.changing import SECONDS_TO_CHANGE, origin_of
from ferrule.workspace.files import Files, files_of, touching
from ferrule.workspace.names import about_names, amount
from ferrule.workspace.paths import require_file_or_folder
from ferrule.workspace.searching.globs import excluded_globs, glob_below, split_globs
from ferrule.workspace.searching.replacement import (
    about_groups,
    any_line_ending,
    find_occurrences,
    literal_pattern,
    literal_replacement,
    names_carriage_return,
    read_replacement,
)
from ferrule.workspace.searching.replacing import (
    FILTERS,
    MOST,
    FileSearchResult,
    Replacements,
    Replacing,
    apply,
    prepare,
    previews_of,
)
from ferrule.workspace.searching.search import (
    Names,
    Query,
    count_searched,
    file_matches,
    in_words,
    left_out,
    search,
    stop_task,
    wider,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable


class FileSearchParams(BaseModel):
    """What to look for, where, and what to put in its place."""

    model_config = ConfigDict(extra="forbid", defer_build=True)  # not at start-up, but when the tool is first used

    pattern: str = Field(min_length=1, max_length=10_000, description="The regular expression to look for.")
    path: str = Field(default=".", description="The file or folder; the working directory unless given.")
    file_glob: str | None = Field(
        default=None,
        description="Only files that fit, e.g. `*.py` or `src/**/*.{ts,tsx}`; several separated by commas.",
    )
    exclude: str | None = Field(
        default=None,
        description="Files and folders to leave out, e.g. `*.min.js, vendor, docs/*.md`; several separated by commas.",
    )
    replace_with: str | None = Field(
        default=None,
        max_length=20_000,
        description="What to put in place of each match, an empty text to delete it; null to search only. "
        r"`$1` or `\1` is a group of the pattern, `${name}` or `\g<name>` a named one; literally: `$$1`, `\\1`.",
    )
    preview_only: bool = Field(
        default=True, description="Whether to show what a replacement would change without changing it."
    )
    multiline: bool = Field(
        default=False, description="Whether a match may span lines; `.` then matches line breaks too."
    )
    literal: bool = Field(
        default=False, description="Whether `pattern` and `replace_with` are plain text instead of an expression."
    )
    ignore_case: bool = Field(default=False, description="Whether upper and lower case are the same.")
    head_limit: int = Field(
        default=200,
        ge=0,
        le=MOST,
        description="How many matching lines, or changed files, to show at most; 0 for as many as can be.",
    )


class FileSearch(Tool[FileSearchParams]):
    r"""Search many files, and replace what is found in all of them at once.

    Use this to rename or rewrite something everywhere: preview it first, look at the changes, then apply it with
    `preview_only` set to false. To look for something only, use Grep; to change one place, use Edit.

    Usage notes:
        - The syntax is ripgrep's. In `replace_with`, `$1`, `${1}` or `\1` is a group of the pattern, `${name}` or
          `\g<name>` one that is written `(?<name>…)`, `$0` the whole match, and `$$` a dollar sign. Before a digit
          write `${1}`. A backslash before anything else stands for itself.
        - Every byte outside a match stays. A line break in `replace_with` is written as the lines of the file end; to
          match one, write `\r?\n` and set `multiline`.
        - `.git`, `node_modules`, binary files, links, and what `.gitignore`, `.ignore` or `.ferruleignore` names are
          left out, unless `path` starts there. Files that are not UTF-8 are never changed.

    Important:
        - All files change or none does, and all are undone as one. The files need not have been read before.
        - A file that changed since the same replacement was previewed stops it: preview again.

    Examples:
        - replace "http:" with "https:" in many files: {"pattern": "http:", "replace_with": "https:", "literal": true}
    """

    name = "FileSearch"
    display_name = "Search and Replace"
    kind = Kind.WRITE
    may_block = False
    category = "files"
    tags = frozenset({"standard", "files", "search"})
    doing = "searching many files for `{pattern}`"
    grace = SECONDS_TO_CHANGE

    def check(self, params: FileSearchParams) -> Iterable[Problem]:
        if "\0" in params.pattern:
            yield Problem(("pattern",), "value", phrase("it contains a NUL byte; to search for one, write \\x00"))
        if "\0" in (params.replace_with or ""):
            yield Problem(("replace_with",), "value", phrase("it contains a NUL byte, and text files have none"))

    async def preview(self, params: FileSearchParams, session: Session) -> str:
        """What a search without changes shows, to which the call holds itself when it runs."""
        if params.preview_only or params.replace_with is None:
            return ""
        trial = params.model_copy(update={"preview_only": True})
        output = await self.run(trial, ToolContext(session, "preview", self.name))
        left_out = output.metadata.get("diff_left_out")
        return str(output.metadata.get("diff", "")) + (f"… {left_out:,} more files are not shown\n" if left_out else "")

    def describe(self, params: FileSearchParams, session: Session) -> CallInfo:
        only_reads = params.replace_with is None or params.preview_only
        return replace(
            touching(params.path, session, write=not only_reads),
            signature=params.path,
            summary=_summary(params),
            only_reads=only_reads,
        )

    async def run(self, params: FileSearchParams, context: ToolContext) -> Output[FileSearchResult]:
        files = files_of(context.session)
        place = files.paths.find(params.path)
        require_file_or_folder(files.paths, place)
        globs = [glob_below(one, place) for one in split_globs(params.file_glob or "")]
        globs += [f"!{glob_below(one, place)}" for one in excluded_globs(params.exclude or "")]
        pattern = literal_pattern(params.pattern) if params.literal else params.pattern
        multiline = params.multiline or (params.literal and "\n" in params.pattern)
        if multiline:
            pattern = any_line_ending(pattern)
        query = Query(
            pattern, place, "content", tuple(globs), ignore_case=params.ignore_case, multiline=multiline,
            crlf=not names_carriage_return(pattern),
        )  # fmt: skip
        import asyncio

        counting = asyncio.create_task(count_searched(files.paths, query))
        try:
            if params.replace_with is None:
                return await _search(params, query, files, context, counting)
            return await _replace(params, query, files, context, counting)
        finally:
            await stop_task(counting)


file_search = FileSearch()


async def _search(
    params: FileSearchParams, query: Query, files: Files, context: ToolContext, counting: Awaitable[int | None]
) -> Output[FileSearchResult]:
    names, most = Names(files.paths, query.place), params.head_limit or MOST
    left = most

    def show(hits: list[bytes]) -> None:
        nonlocal left
        if left > 0:
            some, shown, _ = file_matches(hits[:left], "content", names, left)
            left -= shown
            context.partial(
                "\n".join(line for one in some for line in in_words(one["path"], one["lines"], numbered=True))
            )

    findings = await search(files.paths, query, most, show)
    found, shown, cut = file_matches(findings.hits, "content", names, most)
    notes = left_out(shown, findings.matches, "matching lines", FILTERS, can_raise=not cut)
    notes += [*about_names(one["path"] for one in found), *findings.notes, *query.place.remarks]
    if findings.files:
        lines = amount(findings.matches, "matching line")
        summary = f"Found {lines} in {amount(findings.files, 'file')}."
    else:
        summary = _nothing(params, query)
        notes += _wider(params, query)
    body = [line for one in found for line in in_words(one["path"], one["lines"], numbered=True)]
    searched = await counting
    data: FileSearchResult = {
        "pattern": params.pattern, "path": query.place.shown, "files_searched": searched, "matches": findings.matches,
        "applied": None, "files": found, "total_files": findings.files, "skipped": [], "diff": "",
    }  # fmt: skip
    words = "\n".join([summary, *body, *(f"[{note}]" for note in notes)])
    told = {"files_searched": searched, "matches": findings.matches}
    return Output(noted(data, notes), llm_content=words, display_content=_display(data), metadata=told)


async def _replace(
    params: FileSearchParams, query: Query, files: Files, context: ToolContext, counting: Awaitable[int | None]
) -> Output[FileSearchResult]:
    import asyncio

    from ferrule.process.shell.running import finished

    given = params.replace_with or ""
    replacement = literal_replacement(given) if params.literal else read_replacement(given)
    found = await find_occurrences(
        files.paths, query, replacement, lambda count: context.progress(count, None, "files with a match")
    )
    notes = [*found.notes, *query.place.remarks, *([] if params.literal else about_groups(given, replacement))]
    total = len(found.files)
    previews, asked = previews_of(context.session), params.model_dump_json(exclude={"preview_only", "head_limit"})

    def stage(message: str, total: int) -> Callable[[int], None]:
        step = max(1, total // 100)

        def before_each(position: int) -> None:
            context.cancellation.raise_if_requested()
            if position % step == 0:
                context.progress(position, total, message)

        return before_each

    def work() -> tuple[Replacements, int | None]:
        replacements = prepare(
            files.paths, query.place, found.files, as_written=not query.crlf, before_each=stage("read", total)
        )
        if params.preview_only:
            previews.remember(asked, replacements)
            return replacements, None
        previews.require_unchanged(asked, replacements)
        changes = replacements.files
        group = apply(files, changes, origin_of(context), stage("replaced", len(changes))) if changes else None
        previews.forget(asked)
        return replacements, group.number if group else None

    # One that is cancelled stops before its next file and takes back what it did; that is waited for, so that a call
    # which was stopped has changed nothing.
    replacements, change = await finished(asyncio.to_thread(work))
    if not found.files:
        notes += _wider(params, query)
    told = Replacing(replacements, found.matches, _nothing(params, query), applied=not params.preview_only)
    told.notes += notes
    searched = await counting
    output = told.output(
        params.head_limit or MOST, change, pattern=params.pattern, path=query.place.shown, searched=searched
    )
    output.display_content = _display(cast("FileSearchResult", output.data))
    return output


def _display(found: FileSearchResult) -> str:
    matches, where = found["matches"], in_files(found["total_files"])
    if not found["total_files"]:
        return phrase("found nothing")
    if found["applied"] is None:
        return glued(found_matches(matches), where)
    places = glued(phrase("1 place") if matches == 1 else phrase("{n} places", n=f"{matches:,}"), where)
    return (
        phrase("replaced {where}", where=places) if found["applied"] else phrase("would replace {where}", where=places)
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _nothing(params: FileSearchParams, query: Query) -> str:
    return f"No match for `{cut(params.pattern, 100)}` in `{query.place}`."


def _wider(params: FileSearchParams, query: Query) -> list[str]:
    filters = (name for name in ("file_glob", "exclude") if getattr(params, name))
    return wider(query, params.pattern, params.path, "set `ignore_case` to true", filters)


def _summary(params: FileSearchParams) -> str:
    """All that decides which bytes change, on one line."""
    said = f"{'text' if params.literal else 'pattern'} {_quoted(params.pattern)}"
    if params.replace_with is None:
        said = f"Search for {said}"
    else:
        verb = "Preview replacing" if params.preview_only else "Replace"
        said = f"{verb} {said} with {_quoted(params.replace_with)}"
    said += f" in {_quoted(params.path)}"
    if params.file_glob:
        said += f", only files {_quoted(params.file_glob)}"
    if params.exclude:
        said += f", but not {_quoted(params.exclude)}"
    return said + ", ignoring case" * params.ignore_case + ", across lines" * params.multiline
