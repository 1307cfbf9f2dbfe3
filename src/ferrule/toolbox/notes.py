"""FindNotes, ReadNote, EditNote and MoveNote: work with an Obsidian vault, or any folder of Markdown files."""

from __future__ import annotations

import glob
import json
import posixpath
import re
import stat
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

from pydantic import Field

from ferrule import CallInfo, ErrorKind, Output, Session, Tool, ToolContext, ToolError, Touch, tool
from ferrule.extension import (
    NO_FILE,
    SECONDS_TO_CHANGE,
    Delete,
    Move,
    PathError,
    Place,
    Text,
    Write,
    amount,
    apply_edits,
    change_file,
    cut,
    decode,
    diff_file,
    digest,
    encode_new,
    files_of,
    flattened,
    one_line,
    origin_of,
    phrase,
    plan_change,
    require_text,
    splice,
)
from ferrule.toolbox.accounts import AccountCheck, Accounts
from ferrule.toolbox.failures import forbidden, invalid, not_found
from ferrule.toolbox.front_matter import property_edits
from ferrule.toolbox.markdown_note import Link, Note, Operation, alike, section_edits
from ferrule.toolbox.vault import Vault, aliases_of, find_note, find_vaults, is_note, relinked, title_of

_MOST_CONTENT, _MOST_LISTED, _MOST_LINE, _MOST_PREVIEWED = 100_000, 200, 200, 20
_UNLINKABLE = re.compile(r"[\[\]#^|\\:]")


def tools(accounts: Accounts) -> list[Tool[Any]]:
    """The four tools, for vaults: `accounts.vaults` names them, the workspace itself too where it is one."""
    return [make(accounts.vaults) for make in (_find_notes, _read_note, _edit_note, _move_note)]


async def check(accounts: Accounts) -> list[AccountCheck]:
    return [
        AccountCheck(f"vault `{one}`", there := one.is_dir(), phrase("found") if there else phrase("no such folder"))
        for one in accounts.vaults
    ]


class _Desk:
    """The vaults as a call finds them."""

    def __init__(self, configured: Sequence[Path], session: Session) -> None:
        self.files = files_of(session)
        self.folders = find_vaults(session, self.files.paths, configured)

    def vaults(self) -> list[Vault]:
        return [Vault(self.files.paths, folder) for folder in self.folders]

    def note(self, given: str) -> tuple[Vault, str]:
        return find_note(self.vaults(), self.files.paths, given)

    def new(self, vault: Vault | None, given: str) -> tuple[Vault, Place]:
        """Where a note of this name would be made: a path from the vault, or one that leads into a vault."""
        paths, name = self.files.paths, given if is_note(given) else f"{given}.md"
        if bad := _UNLINKABLE.search(name):
            raise invalid(
                phrase("`{name}` contains `{bad}`, which links cannot name.", name=given.strip("/"), bad=bad[0]),
                phrase("Choose a name without any of these: [ ] # ^ | \\ :"),
            )
        vaults = [vault] if vault else self.vaults()
        for one in vaults:
            try:
                place = paths.locate(name)
            except PathError:
                break
            if "/" in given and one.inner(place.path) is not None:
                return one, place
        if len(vaults) > 1:
            listed = ", ".join(f"`{one.folder}`" for one in vaults)
            raise invalid(phrase("There are several vaults: {listed}.", listed=listed),
                           phrase("Begin the path of the note with one of them."))  # fmt: skip
        place = paths.locate(str(vaults[0].folder.path / name.lstrip("/")))
        if vaults[0].inner(place.path) is None:
            raise invalid(phrase("`{given}` is outside the vault.", given=given), phrase("Give a path inside it."))
        return vaults[0], place


def _goes_on(context: ToolContext, message: str) -> Callable[[int, int], None]:
    def go_on(at: int, of: int) -> None:
        context.cancellation.raise_if_requested()
        if at % max(1, of // 100) == 0:
            context.progress(at, of, message)

    return go_on


def _in_thread(planned: Callable[[Any, Session], str]) -> Callable[[Any, Session], Awaitable[str]]:
    async def preview(params: Any, session: Session) -> str:
        import asyncio  # listing tools does without

        return await asyncio.to_thread(planned, params, session)

    return preview


def _or_refusal(describe: Callable[[Any, Session], CallInfo]) -> Callable[[Any, Session], CallInfo]:
    """A call that would fail in any case is refused before anybody is asked about it."""

    def described(params: Any, session: Session) -> CallInfo:
        try:
            return describe(params, session)
        except ToolError as error:
            return CallInfo(touches=(), refusal=error)

    return described


# FindNotes


class NoteMatch(TypedDict):
    title: str
    path: str
    tags: list[str]
    why: list[str]


class NotesFound(TypedDict):
    """The notes, best or newest first; `count` counts those left out too."""

    count: int
    notes: list[NoteMatch]
    remarks: list[str]


def _render_found(found: NotesFound) -> str:
    lines = [f"Found {amount(found['count'], 'note')}." if found["count"] else "No note fits."]
    for one in found["notes"]:
        tags = "".join(f" #{tag}" for tag in one["tags"])
        lines.append(f"- {one_line(one['title'])} ({one_line(one['path'])}){tags}")
        lines += (f"    {why}" for why in one["why"])
    return "\n".join([*lines, *(f"[{one}]" for one in found["remarks"])])


def _find_notes(configured: Sequence[Path]) -> Tool[Any]:
    @_or_refusal
    def describe(_params: Any, session: Session) -> CallInfo:
        folders = _Desk(configured, session).folders
        return CallInfo(touches=tuple(Touch(f"path:{one.path}") for one in folders), signature=str(folders[0].path))

    @tool(
        name="FindNotes",
        kind="readonly",
        category="notes",
        tags=("notes", "search"),
        doing="looking for notes",
        describe=describe,
        render=_render_found,
        display=lambda found: (
            phrase("found 1 note") if found["count"] == 1 else phrase("found {n} notes", n=found["count"])
        ),
    )
    def find_notes(
        context: ToolContext,
        query: Annotated[str | None, Field(description="Words that must all be in the note or its name.")] = None,
        tag: Annotated[str | None, Field(description="A tag; `work` finds `work/urgent` too.")] = None,
        property: Annotated[  # noqa: A002 - Obsidian's word
            str | None, Field(description="A property: `status` where it is set, `status=open` by its value.")
        ] = None,
        links_to: Annotated[str | None, Field(description="A note that is linked to.")] = None,
        folder: Annotated[str | None, Field(description="A folder of the vault.")] = None,
        limit: Annotated[int, Field(ge=1, le=_MOST_LISTED, description="How many to list.")] = 20,
    ) -> NotesFound:
        """Find notes by text, tag, property, link or folder.

        Use this to find out which notes there are before reading or changing one. What is given must all fit: with
        a `query` the best come first, otherwise the newest.

        Examples:
            - find notes about the launch: {"query": "launch"}
            - find the open tasks: {"tag": "task", "property": "status=open"}
            - what links to the note Alpha: {"links_to": "Alpha"}
        """
        desk = _Desk(configured, context.session)
        vaults = desk.vaults()
        linked: tuple[Vault, str] | str | None = None
        if links_to is not None:
            try:
                linked = find_note(vaults, desk.files.paths, links_to)
            except ToolError as error:
                if error.kind is not ErrorKind.NOT_FOUND:
                    raise
                linked = alike(links_to.strip("[]"))  # links may name what nobody has written yet
        wanted = _Wanted(query, tag, property, linked)
        ranked: list[tuple[int, int, Vault, str, list[str]]] = []
        remarks: list[str] = []
        for vault in vaults:
            prefix = _folder_in(vault, desk, folder) if folder else ""
            if wanted:
                for inner, _, text in vault.searched(_goes_on(context, "searched")):
                    if inner.startswith(prefix) and (fit := wanted.fit(vault, inner, text.text)):
                        ranked.append((fit[0], vault.dates[inner], vault, inner, fit[1]))
            else:
                ranked += ((0, vault.dates[one], vault, one, []) for one in vault.notes if one.startswith(prefix))
            if vault.unread:
                remarks.append(
                    f"{amount(len(vault.unread), 'note')} could not be searched, such as `{vault.unread[0]}`."
                )
        ranked.sort(key=lambda one: (-one[0], -one[1], one[3]))
        notes: list[NoteMatch] = []
        for _, _, vault, inner, why in ranked[:limit]:
            read = vault.read(inner)
            tags = Note(read[1].text).tags if read else []
            notes.append({"title": title_of(inner), "path": vault.place(inner).name, "tags": tags, "why": why})
        if len(ranked) > limit:
            remarks.insert(0, f"{len(ranked) - limit:,} more left out. Narrow the search, or raise `limit`.")
        return {"count": len(ranked), "notes": notes, "remarks": remarks}

    return find_notes


def _folder_in(vault: Vault, desk: _Desk, given: str) -> str:
    """The start of the paths below a folder of the vault."""
    name = given.strip("/")
    below = [one for one in vault.dates if alike(one).startswith(f"{alike(name)}/")]
    if below:
        return below[0][: len(name) + 1]
    with suppress(PathError):
        path = desk.files.paths.find(given).path
        if path == vault.folder.path:
            return ""
        if (inner := vault.inner(path)) is not None:
            return f"{inner}/"
    raise not_found(
        phrase("There is no folder `{given}` with notes in the vault.", given=given),
        phrase("Give a path from the top of the vault, or leave `folder` out."),
    )


class _Wanted:
    """What a note must be to be found, and why it is."""

    def __init__(
        self, query: str | None, tag: str | None, prop: str | None, linked: tuple[Vault, str] | str | None
    ) -> None:
        self._words = alike(query or "").split()
        self._tag = alike(tag.strip().lstrip("#").strip("/")) if tag else ""
        name, value = [*re.split(r"[=:]", prop or "", maxsplit=1), ""][:2]
        self._name, self._value = alike(name.strip()), alike(value.strip())
        self._linked = linked

    def __bool__(self) -> bool:
        return bool(self._words or self._tag or self._name or self._linked)

    def fit(self, vault: Vault, inner: str, text: str) -> tuple[int, list[str]] | None:
        """How well it fits, and why; None where it does not."""
        plain = alike(text)
        title = alike(title_of(inner))
        if not all(word in plain or word in title for word in self._words) or self._tag not in plain:
            return None
        note, why = Note(text), list[str]()
        score = self._score(note, title, plain, why) if self._words else 0
        if self._tag:
            tags = [one for one in note.tags if f"{alike(one)}/".startswith(f"{self._tag}/")]
            if not tags:
                return None
            why.append("tag " + ", ".join(f"#{one}" for one in tags[:5]))
        if self._name and not self._has_property(note, why):
            return None
        if self._linked and not self._has_link(vault, inner, note, why):
            return None
        return score, why

    def _score(self, note: Note, title: str, plain: str, why: list[str]) -> int:
        in_title = sum(word in title for word in self._words)
        score = 100 * (title == " ".join(self._words)) + 20 * in_title
        if in_title:
            why.append("title")
        names = [one for one in aliases_of(note) if all(word in alike(one) for word in self._words)]
        if names:
            score += 20
            why.append(f"alias {names[0]}")
        score += min(10, sum(plain.count(word) for word in self._words))
        lines = enumerate(plain.splitlines(), 1)
        at, line = max(lines, key=lambda one: sum(word in one[1] for word in self._words), default=(1, ""))
        if any(word in line for word in self._words):
            shown = note.text.splitlines()[at - 1].strip() if plain.count("\n") == note.text.count("\n") else line
            why.append(f"line {at}: {cut(shown, _MOST_LINE)}")
        return score

    def _has_property(self, note: Note, why: list[str]) -> bool:
        try:
            given = {alike(name): (name, value) for name, value in note.properties.items()}
        except ToolError:
            return False
        if self._name not in given:
            return False
        name, value = given[self._name]
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        texts = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in values]
        if self._value and self._value not in map(alike, texts):
            return False
        why.append(f"{name}: {cut(', '.join(texts), _MOST_LINE)}")
        return True

    def _has_link(self, vault: Vault, inner: str, note: Note, why: list[str]) -> bool:
        if isinstance(self._linked, str):
            wanted = self._linked
            found = {one.line for one in note.links if alike(one.target) in (wanted, f"{wanted}.md")}
        else:
            target = self._linked[1] if self._linked and self._linked[0] is vault else None
            found = {one.line for one in note.links if one.target and target and vault.leads_to(one, inner) == target}
        why += (f"line {line}: {cut(note.line_text(line), _MOST_LINE)}" for line in sorted(found)[:3])
        return bool(found)


# ReadNote


class NoteLink(TypedDict):
    """A link as written, and the file it leads to; null where there is none."""

    link: str
    path: str | None
    line: int
    embed: bool
    problem: str | None


class NoteBacklink(TypedDict):
    path: str
    line: int
    text: str


class NoteRead(TypedDict):
    path: str
    title: str
    section: str | None
    first_line: int
    content: str
    properties: dict[str, Any]
    outline: list[str]
    links: list[NoteLink]
    backlinks: list[NoteBacklink] | None
    remarks: list[str]


def _render_note(found: NoteRead) -> str:
    lines = [f"`{one_line(found['path'])}`" + (f", section `{found['section']}`" if found["section"] else "")]
    lines += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in found["properties"].items()]
    if found["outline"]:
        lines.append("Headings: " + " · ".join(found["outline"]))
    lines += ["", found["content"].rstrip("\r\n") or "(empty)", ""]
    for one in found["links"]:
        where = f"`{one_line(one['path'])}`" if one["path"] else "nothing"
        problem = f" ({one['problem']})" if one["problem"] and one["path"] else ""
        lines.append(f"{'Embed' if one['embed'] else 'Link'} in line {one['line']}: {one['link']} -> {where}{problem}")
    for back in found["backlinks"] or ():
        lines.append(f"Linked from `{one_line(back['path'])}`, line {back['line']}: {back['text']}")
    if found["backlinks"] == []:
        lines.append("No note links here.")
    return "\n".join([*lines, *(f"[{one}]" for one in found["remarks"])])


def _read_note(configured: Sequence[Path]) -> Tool[Any]:
    @_or_refusal
    def describe(params: Any, session: Session) -> CallInfo:
        vault, inner = _Desk(configured, session).note(params.note)
        path = vault.place(inner).path
        whole = (Touch(f"path:{vault.folder.path}"),) if params.backlinks else ()
        return CallInfo(touches=(Touch(f"path:{path}"), *whole), signature=str(path))

    @tool(
        name="ReadNote",
        kind="readonly",
        category="notes",
        tags=("notes",),
        doing="reading the note `{note}`",
        describe=describe,
        render=_render_note,
        display=lambda found: phrase("read `{path}`", path=found["path"]),
        max_result=400_000,
    )
    def read_note(
        context: ToolContext,
        note: Annotated[str, Field(description="Its name, path or alias.")],
        section: Annotated[str | None, Field(description="A heading, as a path: `Projects/Alpha`.")] = None,
        backlinks: Annotated[bool, Field(description="Whether to list the notes that link to it.")] = False,
    ) -> NoteRead:
        """Read a note, or one section of it.

        Use this before changing a note. You get its properties, its headings as paths for `section`, its text, and
        where its links and embeds lead.

        Examples:
            - read the note Alpha: {"note": "Alpha"}
            - read a section, and who links to the note: {"note": "Alpha", "section": "Log/May", "backlinks": true}
        """
        desk = _Desk(configured, context.session)
        vault, inner = desk.note(note)
        place = vault.place(inner)
        data = desk.files.paths.read(place)
        text = require_text(place.name, decode(data))
        desk.files.tracker.saw(place, data)
        parsed = Note(text.text)
        remarks: list[str] = []
        try:
            found = parsed.properties
        except ToolError as error:
            found, remarks = {}, [error.message]
        heading = parsed.section(section) if section else None
        start, end = (heading.start, heading.end) if heading else (parsed.body, len(text.text))
        content = text.text[start:end]
        if len(content) > _MOST_CONTENT:
            content = content[:_MOST_CONTENT]
            remarks.append(
                f"Only the first {_MOST_CONTENT:,} characters are shown. Read a `section`, or use Read for the rest."
            )
        inside = [one for one in parsed.links if heading is None or start <= one.at < end]
        if len(inside) > _MOST_LISTED:
            remarks.append(f"Only {_MOST_LISTED:,} of {len(inside):,} links are listed.")
        known: dict[str, Note] = {inner: parsed}
        linked = [_resolved(vault, inner, one, known, parsed) for one in inside[:_MOST_LISTED]]
        back: list[NoteBacklink] | None = None
        if backlinks:
            back = [
                {"path": vault.place(one.source).name, "line": one.line, "text": cut(one.text, _MOST_LINE)}
                for one in vault.backlinks(inner, _goes_on(context, "searched"))
            ]
            if len(back) > _MOST_LISTED:
                remarks.append(f"Only {_MOST_LISTED:,} of {len(back):,} backlinks are listed.")
                back = back[:_MOST_LISTED]
        outline = parsed.outline[:_MOST_LISTED]
        if len(parsed.outline) > len(outline):
            remarks.append(f"Only {_MOST_LISTED:,} of {len(parsed.outline):,} headings are listed.")
        return {
            "path": place.name, "title": title_of(inner), "section": section, "first_line": parsed.line_of(start),
            "content": content, "properties": found, "outline": outline, "links": linked, "backlinks": back,
            "remarks": remarks,
        }  # fmt: skip

    return read_note


def _resolved(vault: Vault, source: str, link: Link, known: dict[str, Note], parsed: Note) -> NoteLink:
    target = vault.leads_to(link, source)
    problem = None if target else "there is no such file"
    if target and link.anchor:
        if target not in known:
            read = vault.read(target) if is_note(target) else None
            known[target] = Note(read[1].text if read else "")
        if is_note(target) and not known[target].has_anchor(link.anchor):
            problem = f"there is no `#{link.anchor}` in it"
    written = link.target + (f"#{link.anchor}" if link.anchor else "")
    return {
        "link": written, "path": vault.place(target).name if target else None, "line": parsed.line_of(link.at),
        "embed": link.embed, "problem": problem,
    }  # fmt: skip


# EditNote


class NoteEdited(TypedDict):
    """What became of a note; `added` and `removed` count lines."""

    path: str
    operation: str
    section: str | None
    added: int
    removed: int


def _edit_note(configured: Sequence[Path]) -> Tool[Any]:
    def place_of(desk: _Desk, note: str, operation: Operation) -> Place:
        if operation == "create":
            place = desk.new(None, note)[1]
            if desk.files.paths.exists(place):
                raise _exists(place)
            return place
        vault, inner = desk.note(note)
        return vault.place(inner)

    @_or_refusal
    def describe(params: Any, session: Session) -> CallInfo:
        path = place_of(_Desk(configured, session), params.note, params.operation).path
        where = phrase(" in section `{section}`", section=params.section) if params.section else ""
        content = flattened(params.content or "", 80)
        return CallInfo(
            touches=(Touch(f"path:{path}", write=True),),
            signature=str(path),
            always_rule=f"EditNote:{glob.escape(str(path.parent))}/*",
            summary=f"{params.operation} `{path.name}`{where}" + (f": {content}" if content else ""),
        )

    def planned(params: Any, session: Session) -> str:
        given = (params.operation, params.section, params.content, params.properties)
        _require_parts(*given)
        place = place_of(_Desk(configured, session), params.note, params.operation)
        path, must_exist = str(place.path), params.operation != "create"
        return plan_change(session, path, _editor(place, *given), must_exist=must_exist).diff.text

    @tool(
        name="EditNote",
        kind="write",
        category="notes",
        tags=("notes",),
        doing="editing the note `{note}`",
        grace=SECONDS_TO_CHANGE,
        describe=describe,
        preview=_in_thread(planned),
    )
    def edit_note(
        context: ToolContext,
        note: Annotated[str, Field(description="Its name, path or alias; for `create` the path of the new note.")],
        operation: Annotated[Operation, Field(description="What to do.")],
        section: Annotated[
            str | None, Field(description="The heading, as a path: `Projects/Alpha`; the whole note unless given.")
        ] = None,
        content: Annotated[str | None, Field(description="The Markdown to put there.")] = None,
        properties: Annotated[
            dict[str, Any] | None, Field(description="Properties to set, null to remove one; others stay.")
        ] = None,
    ) -> Output[NoteEdited]:
        """Change a section of a note, set its properties, or create a note.

        Use this for notes; every byte outside the section stays as it is.

        Usage notes:
            - `append` adds at the end of the section's own text, before its subsections; content that begins with a
              heading goes after them. `prepend` adds right below the heading.
            - `replace` puts the content in place of all below the heading, subsections too. `delete` removes the
              section with its heading.
            - `set_properties` and `create` take `properties`. Tags and aliases are properties: {"tags": ["work"]}.

        Important:
            - A note that exists must have been read first, and be unchanged since.
            - Where several headings fit `section`, the error lists their paths: use one of those.

        Examples:
            - note a call with Ann in the log of Alpha:
              {"note": "Alpha", "operation": "append", "section": "Log", "content": "- called Ann"}
            - mark Alpha as done: {"note": "Alpha", "operation": "set_properties", "properties": {"status": "done"}}
            - make a note: {"note": "Projects/Beta", "operation": "create", "content": "# Beta"}
        """
        given = (operation, section, content, properties)
        _require_parts(*given)
        place = place_of(_Desk(configured, context.session), note, operation)
        changed = change_file(context, str(place.path), _editor(place, *given), must_exist=operation != "create")
        name, where = one_line(changed.place.name), f", section `{section}`" if section else ""
        words = f"Created `{name}`."
        if not changed.created:
            words = f"Edited `{name}`{where} (+{changed.added} -{changed.removed} lines)."
        data: NoteEdited = {
            "path": changed.place.name, "operation": operation, "section": section, "added": changed.added,
            "removed": changed.removed,
        }  # fmt: skip
        return Output(
            data,
            llm_content=changed.place.with_remarks(words),
            display_content=phrase("edited (+{added} −{removed})", added=changed.added, removed=changed.removed),
            metadata={"file_path": changed.place.name, **changed.metadata},
        )

    return edit_note


def _editor(
    place: Place, operation: Operation, section: str | None, content: str | None, properties: dict[str, Any] | None
) -> Callable[[bytes | None, Text | None], bytes]:
    """What the note shall hold, by what it holds."""

    def make(before: bytes | None, text: Text | None) -> bytes:
        if operation == "create":
            if before is not None:
                raise _exists(place)  # made at this very moment
            written = content or ""
            return encode_new(apply_edits(written, property_edits(written, properties or {})), None)
        parsed = Note(require_text(place.name, text).text)
        if operation == "set_properties":
            edits = property_edits(parsed.text, properties or {})
        else:
            edits = section_edits(parsed, operation, section, content or "")
        return splice(before or b"", require_text(place.name, text), edits)

    return make


def _require_parts(operation: Operation, section: str | None, content: str | None, properties: object) -> None:
    problem = ""
    if operation in ("append", "prepend") and not (content or "").strip():
        problem = phrase("`{operation}` needs `content`.", operation=operation)
    elif operation == "replace" and content is None:
        problem = phrase("`replace` needs `content`, which may be empty.")
    elif operation == "delete" and (section is None or content is not None):
        problem = phrase("`delete` needs a `section`, and no `content`.")
    elif operation == "set_properties" and (not properties or section is not None or content is not None):
        problem = phrase("`set_properties` needs `properties`, and neither `section` nor `content`.")
    elif properties is not None and operation not in ("set_properties", "create"):
        problem = phrase("`{operation}` takes no `properties`.", operation=operation)
    elif operation == "create" and section is not None:
        problem = phrase("`create` takes no `section`.")
    if problem:
        raise invalid(problem, phrase("Use one call for each change."))


def _exists(place: Place) -> ToolError:
    return invalid(
        phrase("There is a note at `{place}` already.", place=place),
        phrase("Choose another name, or read it and change it."),
    )


# MoveNote


class NoteMoved(TypedDict):
    """Where a note is now; `links` counts the links that were rewritten, `notes` the notes they are in."""

    path: str
    moved_from: str
    links: int
    notes: int
    remarks: list[str]


def _move_note(configured: Sequence[Path]) -> Tool[Any]:
    def ends(desk: _Desk, note: str, to: str) -> tuple[Vault, str, Place]:
        vault, old = desk.note(note)
        name, given = posixpath.basename(old), to.strip()
        target = given if "/" in given else posixpath.join("/", posixpath.dirname(old), given)
        if given.endswith("/") or any(one.startswith(f"{given.strip('/')}/") for one in vault.dates):
            target = f"{given.rstrip('/')}/{name}"
        _, place = desk.new(vault, target)
        if place.path == vault.place(old).path:
            raise invalid(phrase("`{place}` is there already.", place=place), phrase("Give another name or folder."))
        if desk.files.paths.exists(place):
            raise _exists(place)
        return vault, old, place

    @_or_refusal
    def describe(params: Any, session: Session) -> CallInfo:
        vault, old, place = ends(_Desk(configured, session), params.note, params.to)
        start = vault.place(old)
        return CallInfo(
            touches=tuple(Touch(f"path:{one}", write=True) for one in (start.path, place.path, vault.folder.path)),
            signature=f"{start.path} -> {place.path}",
            always_rule=f"MoveNote:{glob.escape(str(vault.folder.path))}/* -> {glob.escape(str(vault.folder.path))}/*",
            summary=phrase("Move `{start}` to `{place}` and update the links to it", start=start, place=place),
        )

    def planned(params: Any, session: Session) -> str:
        vault, old, place = ends(_Desk(configured, session), params.note, params.to)
        changes = relinked(vault, old, vault.inner(place.path) or "", lambda _at, _of: None)
        # What a move would change, as diffs of the first notes.
        shown = [
            diff_file(
                decode(one.before), decode(one.after), (place if one.inner == old else vault.place(one.inner)).name
            ).text
            for one in changes[:_MOST_PREVIEWED]
        ]
        head = phrase("Rename `{start}` to `{place}`.", start=vault.place(old), place=place)
        left = len(changes) - len(shown)
        more = phrase("Links in {count} more notes are updated the same way.", count=f"{left:,}") if left else ""
        return "\n".join(one.rstrip("\n") for one in (head, *shown, more) if one) + "\n"

    @tool(
        name="MoveNote",
        kind="write",
        category="notes",
        tags=("notes",),
        doing="moving the note `{note}`",
        grace=SECONDS_TO_CHANGE,
        timeout=600,
        describe=describe,
        preview=_in_thread(planned),
        render=lambda moved: "\n".join(
            [
                f"Moved `{moved['moved_from']}` to `{moved['path']}`.",
                f"Rewrote {amount(moved['links'], 'link')} in {amount(moved['notes'], 'note')}.",
                *(f"[{one}]" for one in moved["remarks"]),
            ]
        ),
        display=lambda moved: phrase("moved, {n} links updated", n=f"{moved['links']:,}"),
    )
    def move_note(
        context: ToolContext,
        note: Annotated[str, Field(description="Its name, path or alias.")],
        to: Annotated[
            str,
            Field(description="A new name; a path from the top of the vault; or a folder, with `/` at its end."),
        ],
    ) -> Output[NoteMoved]:
        """Rename or move a note, and update every link to it.

        Use this instead of moving the file: links, embeds and properties in all notes go on to mean the same notes,
        with their headings, blocks and display texts. All of it is undone as one change.

        Examples:
            - rename Alpha to Apollo: {"note": "Alpha", "to": "Apollo"}
            - move it to the archive: {"note": "Alpha", "to": "Archive/"}
        """
        desk = _Desk(configured, context.session)
        vault, old, place = ends(desk, note, to)
        files, start = desk.files, vault.place(old)
        files.paths.check_new(place)
        new = vault.inner(place.path) or ""
        changes = relinked(vault, old, new, _goes_on(context, "searched"))
        steps: list[Delete | Move | Write] = []
        for change in changes:
            written = vault.place(change.inner)
            files.paths.require_writable(written, written.name)
            if files.paths.kept.why_left_alone(written.path, vault.folder.path):
                raise forbidden(
                    phrase(
                        "`{written}` links to the note, and changing it needs approval of its own.", written=written
                    ),
                    phrase("Change the link there with Edit first."),
                )
            expect = digest(change.before)
            if change.inner != old:
                steps.append(Write(written, change.after, expect=expect, holds=change.before,
                                   through_hard_links=files.hard_links))  # fmt: skip
                continue
            found = files.paths.stat(start)
            mode = stat.S_IMODE(found.st_mode) if found else None
            steps += [Delete(start, expect=expect), Write(place, change.after, mode=mode, expect=NO_FILE)]
        files.paths.require_writable(start, start.name)
        files.paths.require_writable(place, place.name)
        if all(change.inner != old for change in changes):
            steps.append(Move(start, place))
        known = [one for one in changes if files.tracker.knows(vault.place(one.inner), one.before)]
        at_start = vault.read(old)
        go_on = _goes_on(context, "rewritten")
        group = files.history.apply(steps, origin_of(context), before_each=lambda at: go_on(at, len(steps)))
        for one in known:
            files.tracker.saw(place if one.inner == old else vault.place(one.inner), one.after)
        if at_start is not None and files.tracker.knows(start, at_start[0]) and all(one.inner != old for one in known):
            files.tracker.saw(place, at_start[0])
        remarks: list[str] = []
        if vault.unread:
            remarks.append(
                f"{amount(len(vault.unread), 'note')} could not be searched for links, such as `{vault.unread[0]}`."
            )
        data: NoteMoved = {
            "path": place.name, "moved_from": start.name, "links": sum(one.links for one in changes),
            "notes": len(changes), "remarks": remarks,
        }  # fmt: skip
        return Output(data, metadata={"change": group.number if group else None, **data})

    return move_note
