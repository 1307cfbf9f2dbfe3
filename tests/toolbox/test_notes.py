"""FindNotes, ReadNote, EditNote and MoveNote on a small vault, through the real pipeline."""
# ruff: noqa: E501 - words for a model stand as they are

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.toolbox.note_desk import NoteDesk

from ferrule import Environment, RulePolicy
from ferrule.app.settings import accounts_of, added_folders, load_settings
from ferrule.toolbox.accounts import Accounts
from ferrule.toolbox.areas import toolbox_tools

ALPHA = """\
---
# about this note
tags: [work, task/urgent]
aliases:
  - Apollo
status: open   # or done
related: "[[Beta]]"
---
# Alpha

Intro with [[Beta|the other]], ![[plan.png]] and [[Gone]].

## Log
- first

### May
- in May ^m1

## Notes
```
# not a heading, [[Beta]], #not-a-tag
```
%% [[Beta]] #hidden %% and `[[Beta]]` and $x [[Beta]]$ and #idea
"""
BETA = "See [[Alpha#Log|log]], [[alpha#^m1]], [[Alpha#None]] and [md](Projects/Alpha.md#log).\n"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NoteDesk:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    desk = NoteDesk(tmp_path / "vault")
    desk.put("Projects/Alpha.md", ALPHA)
    desk.put("Beta.md", BETA)
    desk.put("plan.png", b"png")
    desk.put(".obsidian/app.json", "{}")
    return desk


def test_a_note_is_read_with_its_properties_links_and_backlinks(desk: NoteDesk) -> None:
    assert desk.call("ReadNote", note="apollo", backlinks=True).llm_content == snapshot("""\
`Projects/Alpha.md`
tags: ["work", "task/urgent"]
aliases: ["Apollo"]
status: "open"
related: "[[Beta]]"
Headings: Alpha · Alpha/Log · Alpha/Log/May · Alpha/Notes

# Alpha

Intro with [[Beta|the other]], ![[plan.png]] and [[Gone]].

## Log
- first

### May
- in May ^m1

## Notes
```
# not a heading, [[Beta]], #not-a-tag
```
%% [[Beta]] #hidden %% and `[[Beta]]` and $x [[Beta]]$ and #idea

Link in line 7: Beta -> `Beta.md`
Link in line 11: Beta -> `Beta.md`
Embed in line 11: plan.png -> `plan.png`
Link in line 11: Gone -> nothing
Linked from `Beta.md`, line 1: See [[Alpha#Log|log]], [[alpha#^m1]], [[Alpha#None]] and [md](Projects/Alpha.md#log).\
""")
    assert desk.call("ReadNote", note="Beta").llm_content == snapshot("""\
`Beta.md`

See [[Alpha#Log|log]], [[alpha#^m1]], [[Alpha#None]] and [md](Projects/Alpha.md#log).

Link in line 1: Alpha#Log -> `Projects/Alpha.md`
Link in line 1: alpha#^m1 -> `Projects/Alpha.md`
Link in line 1: Alpha#None -> `Projects/Alpha.md` (there is no `#None` in it)
Link in line 1: Projects/Alpha.md#log -> `Projects/Alpha.md`\
""")


def test_a_section_is_read_by_its_path(desk: NoteDesk) -> None:
    assert desk.data("ReadNote", note="Alpha", section="Log/May")["content"] == "### May\n- in May ^m1\n\n"
    assert desk.data("ReadNote", note="Projects/Alpha.md", section="## log")["content"].startswith("## Log\n- first")


def test_notes_are_found_by_text_tag_property_link_and_folder(desk: NoteDesk) -> None:
    assert desk.call("FindNotes", query="alpha").llm_content == snapshot("""\
Found 2 notes.
- Alpha (Projects/Alpha.md) #work #task/urgent #idea
    title
    line 9: # Alpha
- Beta (Beta.md)
    line 1: See [[Alpha#Log|log]], [[alpha#^m1]], [[Alpha#None]] and [md](Projects/Alpha.md#log).\
""")
    found = {
        "tag": desk.data("FindNotes", tag="#task"),
        "property": desk.data("FindNotes", property="status=Open"),
        "alias": desk.data("FindNotes", query="apollo"),
        "link": desk.data("FindNotes", links_to="Alpha"),
        "dangling": desk.data("FindNotes", links_to="Gone"),
        "folder": desk.data("FindNotes", folder="projects"),
    }
    assert {name: [(one["title"], one["why"]) for one in value["notes"]] for name, value in found.items()} == snapshot(
        {
            "tag": [("Alpha", ["tag #task/urgent"])],
            "property": [("Alpha", ["status: open"])],
            "alias": [("Alpha", ["alias Apollo", "line 5: - Apollo"])],
            "link": [
                (
                    "Beta",
                    ["line 1: See [[Alpha#Log|log]], [[alpha#^m1]], [[Alpha#None]] and [md](Projects/Alpha.md#log)."],
                )
            ],
            "dangling": [("Alpha", ["line 11: Intro with [[Beta|the other]], ![[plan.png]] and [[Gone]]."])],
            "folder": [("Alpha", [])],
        }
    )
    assert desk.data("FindNotes", tag="hidden")["count"] == 0
    assert desk.data("FindNotes", tag="not-a-tag")["count"] == 0
    assert desk.data("FindNotes", property="status=done")["count"] == 0


def test_text_goes_to_the_end_of_a_sections_own_text(desk: NoteDesk) -> None:
    assert desk.edit("Alpha", "append", section="Log", content="- second").success
    assert desk.contents()["Projects/Alpha.md"].decode() == ALPHA.replace("- first\n", "- first\n- second\n")
    desk.undo()
    assert desk.edit("Alpha", "append", section="Log", content="### June\n- in June").success
    assert desk.contents()["Projects/Alpha.md"].decode() == ALPHA.replace("^m1\n", "^m1\n\n### June\n- in June\n")
    desk.undo()
    assert desk.contents()["Projects/Alpha.md"].decode() == ALPHA


def test_a_section_is_replaced_prepended_to_and_deleted(desk: NoteDesk) -> None:
    assert desk.edit("Alpha", "replace", section="Log", content="- new").success
    changed = ALPHA.replace("- first\n\n### May\n- in May ^m1\n", "- new\n")
    assert desk.contents()["Projects/Alpha.md"].decode() == changed
    assert desk.edit("Alpha", "prepend", section="Log", content="- newer").success
    assert desk.contents()["Projects/Alpha.md"].decode() == changed.replace("- new\n", "- newer\n- new\n")
    assert desk.edit("Alpha", "delete", section="Log").success
    assert desk.contents()["Projects/Alpha.md"].decode() == changed.replace("## Log\n- new\n\n", "")


def test_other_properties_keep_their_bytes(desk: NoteDesk) -> None:
    assert desk.edit(
        "Alpha", "set_properties", properties={"status": "done", "due": "2026-01-02", "aliases": None}
    ).success
    changed = ALPHA.replace("status: open ", "status: done ").replace("aliases:\n  - Apollo\n", "")
    assert desk.contents()["Projects/Alpha.md"].decode() == changed.replace(
        '"[[Beta]]"\n', '"[[Beta]]"\ndue: 2026-01-02\n'
    )


def test_a_note_is_created_with_properties(desk: NoteDesk) -> None:
    assert desk.edit("Ideas/New one", "create", content="# New\n", properties={"tags": ["x"]}).success
    assert desk.contents()["Ideas/New one.md"] == b"---\ntags:\n  - x\n---\n# New\n"
    desk.undo()
    assert not (desk.folder / "Ideas").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"operation": "append", "section": "Lag", "content": "x"},
            snapshot("""\
Error (not_found_error): There is no heading `Lag` in this note.

Suggestion: Its headings: `Alpha`, `Alpha/Log`, `Alpha/Log/May`, `Alpha/Notes`.\
"""),
        ),
        (
            {"operation": "append", "section": "Notes", "content": "```\nnever closed", "note": "Long"},
            snapshot("""\
Error (validation_error): The content would change how the rest of the note reads. Nothing was changed.

Suggestion: Close every code block, comment and HTML tag that it opens.\
"""),
        ),
        (
            {"operation": "append", "section": "Day", "content": "x", "note": "Long"},
            snapshot("""\
Error (validation_error): 3 headings fit `Day`: `A/Day` (line 4), `#B/Day[1]` (line 6), `#B/Day[2]` (line 7).

Suggestion: Give one of these paths as `section`.\
"""),
        ),
        (
            {"operation": "delete"},
            snapshot("""\
Error (validation_error): `delete` needs a `section`, and no `content`.

Suggestion: Use one call for each change.\
"""),
        ),
        (
            {"operation": "append", "content": " "},
            snapshot("""\
Error (validation_error): `append` needs `content`.

Suggestion: Use one call for each change.\
"""),
        ),
        (
            {"operation": "set_properties", "properties": {"a": 1}, "note": "Broken"},
            snapshot("""\
Error (validation_error): The front matter cannot be read: expected ',' or ']', but got '<stream end>' in line 3.

Suggestion: Correct the lines between the `---` with Edit.\
"""),
        ),
    ],
    ids=["missing", "unclosed", "ambiguous", "delete", "empty", "yaml"],
)
def test_what_cannot_be_edited_is_said_and_left_alone(desk: NoteDesk, arguments: dict[str, object], words: str) -> None:
    desk.put("Long.md", "# Notes\n\n# A\n## Day\n# B\n## Day\n## Day\n")
    desk.put("Broken.md", "---\na: [1\n---\nx\n")
    before = desk.contents()
    given = {"note": "Alpha", **arguments}
    assert desk.edit(**given).llm_content == words  # type: ignore[reportArgumentType]
    assert desk.contents() == before


def test_a_path_from_an_error_works(desk: NoteDesk) -> None:
    desk.put("Long.md", "# A\n## Day\n# Day\n# B\n## Day\n## Day\n")
    outline = desk.data("ReadNote", note="Long")["outline"]
    assert outline == ["A", "A/Day", "#Day", "B", "#B/Day[1]", "#B/Day[2]"]
    for at, path in enumerate(outline):
        assert desk.edit("Long", "append", section=path, content=f"text {at}").success
    assert desk.contents()["Long.md"].decode() == (
        "# A\ntext 0\n## Day\ntext 1\n# Day\ntext 2\n# B\ntext 3\n## Day\ntext 4\n## Day\ntext 5\n"
    )


def test_a_note_must_have_been_read(desk: NoteDesk) -> None:
    assert "has not been read" in desk.call("EditNote", note="Alpha", operation="append", content="x").llm_content


def test_a_name_that_several_notes_have_is_an_error(desk: NoteDesk) -> None:
    desk.put("Archive/Alpha.md", "old\n")
    assert desk.call("ReadNote", note="Alpha").llm_content == snapshot("""\
Error (validation_error): 2 notes are called `Alpha`: `Archive/Alpha.md`, `Projects/Alpha.md`.

Suggestion: Give the path of the one you mean.\
""")
    assert desk.data("ReadNote", note="Archive/Alpha")["content"] == "old\n"


def test_moving_a_note_keeps_its_links_and_is_undone_as_one(desk: NoteDesk) -> None:
    before = desk.contents()
    assert desk.call("MoveNote", note="Alpha", to="Archive/Apollo (1)").llm_content == snapshot("""\
Moved `Projects/Alpha.md` to `Archive/Apollo (1).md`.
Rewrote 4 links in 1 note.\
""")
    after = desk.contents()
    assert "Projects/Alpha.md" not in after
    assert after["Beta.md"].decode() == snapshot(
        "See [[Apollo (1)#Log|log]], [[Apollo (1)#^m1]], [[Apollo (1)#None]] and [md](Archive/Apollo%20%281%29.md#log).\n"
    )
    desk.undo()
    assert desk.contents() == before


def test_a_move_says_what_is_wrong(desk: NoteDesk) -> None:
    before = desk.contents()
    words = [desk.call("MoveNote", note="Alpha", to=to).llm_content for to in ("/Beta", "A#B", "../../out", "Alpha")]
    assert words == snapshot(
        [
            """\
Error (validation_error): There is a note at `Beta.md` already.

Suggestion: Choose another name, or read it and change it.\
""",
            """\
Error (validation_error): `Projects/A#B` contains `#`, which links cannot name.

Suggestion: Choose a name without any of these: [ ] # ^ | \\ :\
""",
            """\
Error (permission_error): `../../out.md` is outside the workspace.

Suggestion: Use a path inside the workspace; relative paths start at its top.\
""",
            """\
Error (validation_error): `Projects/Alpha.md` is there already.

Suggestion: Give another name or folder.\
""",
        ]
    )
    assert desk.contents() == before


def test_denied_notes_are_not_in_a_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    desk = NoteDesk(tmp_path / "vault", RulePolicy(mode="accept-edits", deny=["Read(./Secret/**)"]))
    desk.put("Secret/Plan.md", "the launch is [[Open]]\n")
    desk.put("Open.md", "the launch\n")
    assert [one["path"] for one in desk.data("FindNotes", query="launch")["notes"]] == ["Open.md"]
    assert desk.data("ReadNote", note="Open", backlinks=True)["backlinks"] == []
    assert not desk.call("ReadNote", note="Plan").success
    assert not desk.call("ReadNote", note="Secret/Plan.md").success


def test_a_denied_write_is_refused_however_the_note_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    desk = NoteDesk(tmp_path / "vault", RulePolicy(mode="accept-edits", deny=["Edit(./Fixed/**)"]))
    desk.put("Fixed/Law.md", "---\naliases: [Rule]\n---\nsee [[Free]]\n")
    desk.put("Free.md", "x\n")
    before = desk.contents()
    for name in ("Law", "rule", "Fixed/Law.md", str(desk.folder / "Fixed/Law.md")):
        assert "denies" in str(desk.edit(name, "append", content="x").llm_content), name
    assert not desk.call("MoveNote", note="Law", to="/Law").success
    assert not desk.call("MoveNote", note="Free", to="Other").success  # a link in Fixed would break
    assert desk.contents() == before


def test_a_vault_outside_the_workspace_is_one_of_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    vault = tmp_path / "elsewhere"
    vault.mkdir()
    (vault / "A.md").write_text("text\n")
    assert desk_words(NoteDesk(tmp_path / "one", vaults=[vault])) == snapshot("""\
Error (execution_error): The vault `…/elsewhere` is outside the workspace.

Suggestion: Ask the user to add it to the session's folders (`Environment(roots=[…])`).\
""")
    desk = NoteDesk(tmp_path / "two", vaults=[vault], environment=Environment(roots=(vault,)))
    assert desk.data("ReadNote", note="A")["content"] == "text\n"


def desk_words(desk: NoteDesk) -> str:
    return str(desk.call("ReadNote", note="A").llm_content).replace(str(desk.folder.parent), "<tmp>")


def test_the_tools_are_there_where_a_vault_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_CONFIG", str(tmp_path / "settings.toml"))
    (tmp_path / "settings.toml").write_text("[notes]\nvaults = ['../shared', 'inner']\n")
    settings = load_settings(tmp_path / "ws").settings
    accounts = accounts_of(settings, tmp_path / "ws")
    assert accounts.vaults == [tmp_path / "ws/../shared", tmp_path / "ws/inner"]
    assert added_folders(settings, tmp_path / "ws")[-1] == tmp_path / "ws/../shared"
    assert [one.name for one in toolbox_tools(accounts) if one.category == "notes"] == [
        "FindNotes", "ReadNote", "EditNote", "MoveNote",
    ]  # fmt: skip
    assert not [one for one in toolbox_tools(Accounts()) if one.category == "notes"]
    (tmp_path / "ws/.obsidian").mkdir(parents=True)
    assert accounts_of(settings, tmp_path / "ws").vaults[-1] == tmp_path / "ws"


def test_a_session_below_the_top_of_a_vault_uses_all_of_it(desk: NoteDesk) -> None:
    below = NoteDesk(desk.folder, vaults=[Path("Projects")], working_directory=desk.folder)
    assert below.data("ReadNote", note="Beta")["path"] == "Beta.md"


def test_the_user_who_is_asked_sees_what_a_note_would_become(tmp_path: Path) -> None:
    desk = NoteDesk(tmp_path / "vault", policy=RulePolicy())
    desk.put("Alpha.md", "# Alpha\n\n## Log\n\n- one\n")
    desk.put("Beta.md", "see [[Alpha]]\n")
    before = desk.contents()
    desk.call("ReadNote", note="Alpha")
    for tool, arguments in (
        ("EditNote", {"note": "Alpha", "operation": "append", "section": "Log", "content": "- two"}),
        ("EditNote", {"note": "New", "operation": "create", "content": "# New"}),
        ("MoveNote", {"note": "Alpha", "to": "Archive/Omega"}),
    ):
        assert "the user denied it" in desk.call(tool, **arguments).llm_content
    assert desk.contents() == before
    assert [one.preview for one in desk.asked] == snapshot(
        [
            """\
--- a/Alpha.md
+++ b/Alpha.md
@@ -3,3 +3,4 @@
 ## Log
 \n\
 - one
+- two
""",
            """\
--- /dev/null
+++ b/New.md
@@ -0,0 +1 @@
+# New
\\ No newline at end of file
""",
            """\
Rename `Alpha.md` to `Archive/Omega.md`.
--- a/Beta.md
+++ b/Beta.md
@@ -1 +1 @@
-see [[Alpha]]
+see [[Omega]]
""",
        ]
    )
    desk.asked.clear()
    for tool, arguments in (
        ("EditNote", {"note": "Beta", "operation": "append", "content": "x"}),  # not read yet
        ("EditNote", {"note": "Alpha", "operation": "append", "section": "Lost", "content": "x"}),
        ("EditNote", {"note": "Beta", "operation": "create", "content": "x"}),
        ("MoveNote", {"note": "Alpha", "to": "Beta"}),
    ):
        assert not desk.call(tool, **arguments).success
    assert desk.asked == []


def test_a_move_of_a_note_with_many_links_shows_the_first_of_them(tmp_path: Path) -> None:
    desk = NoteDesk(tmp_path / "vault", policy=RulePolicy())
    desk.put("Alpha.md", "# Alpha\n")
    for number in range(30):
        desk.put(f"{number:02}.md", "see [[Alpha]]\n")
    desk.call("MoveNote", note="Alpha", to="Omega")
    assert desk.asked[0].preview.count("+see [[Omega]]") == 20
    assert desk.asked[0].preview.endswith("Links in 10 more notes are updated the same way.\n")
