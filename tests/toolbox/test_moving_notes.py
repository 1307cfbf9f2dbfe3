"""A moved note takes its links along, by a resolver that only the test has; undo gives back every byte."""

from __future__ import annotations

import os
import posixpath
import re
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.toolbox.note_desk import NoteDesk

from ferrule import Environment
from ferrule.toolbox.vault import Links

WIKI = re.compile(r"!?\[\[([^\]|#\\]*)(#[^\]|\\]*)?(?:\\?\|([^\]]*))?\]\]")
MARKDOWN = re.compile(r"\]\((?:<([^>#]*)(#[^>]*)?>|([^)\s#]*)(#[^)\s]*)?)\)")


def meaning(files: dict[str, bytes], source: str) -> list[tuple[str | None, str, str]]:
    """Of each link of a note: the file it means, its anchor and its display text, by the rules of Obsidian's manual."""
    text = files[source].decode()
    text = re.sub(r"```.*?```|`[^`\n]*`|%%.*?%%", lambda one: " " * len(one[0]), text, flags=re.DOTALL)
    found = [
        (one.start(), _means(files, source, one[1].strip()), one[2] or "", one[3] or "") for one in WIKI.finditer(text)
    ]
    for one in MARKDOWN.finditer(text):
        target, anchor = unquote(one[1] or one[3] or ""), one[2] or one[4] or ""
        here = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        relative = _file(files, here) if target and target[:1] != "/" else None
        found.append((one.start(), relative or _means(files, source, target), anchor, ""))
    return [one[1:] for one in sorted(found)]


def _file(files: dict[str, bytes], path: str) -> str | None:
    names = [one for one in files if one.lower() in (path.lower(), f"{path.lower()}.md")]
    return next((one for one in names if one in (path, f"{path}.md")), names[0] if names else None)


def _means(files: dict[str, bytes], source: str, target: str) -> str | None:
    folder = posixpath.dirname(source)
    if not target:
        return source
    if target.startswith("/"):
        return _file(files, target[1:])
    if target.startswith("."):
        return _file(files, posixpath.normpath(posixpath.join(folder, target)))
    if exact := _file(files, target):
        return exact
    low = target.lower()
    ends = [one for one in files if f"/{one.lower()}".endswith((f"/{low}", f"/{low}.md"))]
    exact_case = [one for one in ends if f"/{one}".endswith((f"/{target}", f"/{target}.md"))]
    near = [one for one in exact_case or ends if one.startswith(f"{folder}/")] or exact_case or ends
    return min(near, key=lambda one: (len(one), one), default=None)


NAMES = ["A.md", "b/A.md", "b/c/A.md", "B.md", "c/B x.md", "b/C (1).md", "é.md", "pic.png", "b/v1.2.md", "c/d/E&F.md"]
TARGETS = [
    "A", "a", "b/A", "c/A", "b/c/A.md", "./A", "../A", "/A", "B", "B x", "C (1)", "é", "pic.png", "v1.2", "E&F",
    "Nobody", "../b/A.md", "d/E&F", "",
]  # fmt: skip
NEW = ["Z", "b/A", "A", "/A", "c/New name", "b/c/", "x/y/z w", "B", "é", "50% off", "a'b"]


@st.composite
def links(draw: st.DrawFn) -> str:
    target = draw(st.sampled_from(TARGETS))
    anchor = draw(st.sampled_from(["", "#H", "#^b1", "#H#Sub"]))
    match draw(st.sampled_from(["wiki", "alias", "table", "embed", "markdown", "angle", "code", "comment"])):
        case "wiki":
            return f"[[{target or 'A'}{anchor}]]"
        case "alias":
            return f"[[{target or 'B'}{anchor}|shown as]]"
        case "table":
            return f"\n\n| a |\n|---|\n| [[{target or 'A'}{anchor}\\|cell]] |\n\n"
        case "embed":
            return f"![[{target or 'A'}{anchor}]]"
        case "markdown":
            written = target.replace("%", "%25").replace(" ", "%20").replace("(", "%28").replace(")", "%29")
            return f"[text]({written}{anchor.replace(' ', '%20')})" if written or anchor else "x"
        case "angle":
            return f"![text](<{target}{anchor}>)" if target else "y"
        case "code":
            return f"`[[{target}]]`"
        case _:
            return f"%% [[{target}]] %%"


@st.composite
def vaults(draw: st.DrawFn) -> dict[str, bytes]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=7, unique=True))
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    return {
        name: ending.join(["# H", "## Sub", *draw(st.lists(links(), max_size=5)), "text ^b1"]).encode()
        if name.endswith(".md")
        else b"\x89PNG"
        for name in names
    }


@pytest.mark.slow
@given(vaults(), st.data(), st.sampled_from(NEW))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_every_link_means_what_it_meant(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], data: st.DataObject, to: str
) -> None:
    room = tmp_path_factory.mktemp("vault")
    desk = NoteDesk(room / "vault", environment=Environment(history_folder=room / "history"))
    for name, content in files.items():
        desk.put(name, content)
    old = data.draw(st.sampled_from([name for name in files if name.endswith(".md")] or [""]))
    if not old:
        return
    result = desk.call("MoveNote", note=old, to=to)
    if not result.success:
        assert desk.contents() == files
        return
    new, after = result.data["path"], desk.contents()  # type: ignore[reportIndexIssue]
    assert set(after) == {new if name == old else name for name in files}
    for source, content in files.items():
        if not source.endswith(".md"):
            assert after[source] == content
            continue
        before = meaning(files, source)
        expected = [(new if target == old else target, *rest) for target, *rest in before]
        now = meaning(after, new if source == old else source)
        assert [one for one in now if one[0] in after or one[0] is None] == now
        assert [(want if want[0] else found) for want, found in zip(expected, now, strict=True)] == now, source
        # Only targets of links differ.
        assert re.sub(rb"\[\[[^\]]*\]\]|\]\([^)]*\)+", b"", after[new if source == old else source]) == re.sub(
            rb"\[\[[^\]]*\]\]|\]\([^)]*\)+", b"", content
        )
    desk.undo()
    assert desk.contents() == files


def test_links_keep_their_style(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    desk = NoteDesk(tmp_path / "vault")
    desk.put("p/Old.md", "[up](../Hub.md) [[Hub]] [[#Here]] [me](Old.md#Here)\n# Here\n")
    hub = (
        "---\nrelated: \"[[Old|o]]\"\nsingle: '[[p/Old]]'\n---\n[[Old]] [[p/Old.md#Here|x]] ![[old#^b]] [m](p/Old.md) "
        "[e](<p/Old.md#Here>) [r][ref] `[[Old]]`\n\n| [[Old\\|cell]] |\n|---|\n\n[ref]: p/Old.md 'title'\n"
    )
    desk.put("Hub.md", hub)
    assert desk.call("MoveNote", note="Old", to='q/deep/It\'s "new" (1)').success
    after = desk.contents()
    assert after["Hub.md"].decode() == (
        '---\nrelated: "[[It\'s \\"new\\" (1)|o]]"\nsingle: \'[[q/deep/It\'\'s "new" (1)]]\'\n---\n[[It\'s "new" (1)]] '
        '[[q/deep/It\'s "new" (1).md#Here|x]] ![[It\'s "new" (1)#^b]] [m](q/deep/It%27s%20%22new%22%20%281%29.md) '
        '[e](<q/deep/It\'s "new" (1).md#Here>) [r][ref] `[[Old]]`\n\n| [[It\'s "new" (1)\\|cell]] |\n|---|\n\n'
        "[ref]: q/deep/It%27s%20%22new%22%20%281%29.md 'title'\n"
    )
    assert after['q/deep/It\'s "new" (1).md'].decode() == (
        "[up](../../Hub.md) [[Hub]] [[#Here]] [me](It%27s%20%22new%22%20%281%29.md#Here)\n# Here\n"
    )


def test_a_cancelled_or_failed_move_leaves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more files than are written one by one, and one that cannot be."""
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    desk = NoteDesk(tmp_path / "vault")
    desk.put("Hub.md", "x\n")
    for number in range(80):
        desk.put(f"n{number:02}.md", "[[Hub]]\n")
    os.link(desk.folder / "n40.md", tmp_path / "other name")
    before = desk.contents()
    assert "hard links" in desk.call("MoveNote", note="Hub", to="sub/Centre").llm_content
    assert desk.contents() == before
    assert not (desk.folder / "sub").exists()


@pytest.mark.slow
def test_many_backlinks_do_not_wait_for_the_disk_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    waits: list[int] = []
    wait = os.fsync
    monkeypatch.setattr(os, "fsync", lambda opened: (waits.append(1), wait(opened))[1])  # type: ignore[reportUnknownLambdaType]
    desk = NoteDesk(tmp_path / "vault")
    times: list[float] = []
    for count in (300, 1200):
        desk.put(f"Hub{count}.md", "x\n")
        for number in range(count):
            desk.put(f"f{count}/{number % 20}/n{number}.md", f"# N\n\n[[Hub{count}|hub]] {number}\n")
        waits.clear()
        began = time.process_time()
        assert desk.data("MoveNote", note=f"Hub{count}", to=f"Centre{count}")["links"] == count
        times.append(time.process_time() - began)
        assert len(waits) < 10
        assert (desk.folder / f"f{count}/7/n7.md").read_text().count(f"[[Centre{count}|hub]]") == 1
    assert times[1] < times[0] * 4 * 2.5 + 0.5  # it grows with the number of files, and no faster
    desk.undo()
    assert "[[Hub1200|hub]]" in (desk.folder / "f1200/7/n7.md").read_text()


def test_a_note_that_takes_the_name_of_another_leaves_that_ones_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    desk = NoteDesk(tmp_path / "vault")
    for name, content in {"First.md": "1\n", "far/Second.md": "2\n", "See.md": "see [[Second]]\n"}.items():
        desk.put(name, content)
    assert desk.call("MoveNote", note="First", to="/Second").success
    assert desk.contents()["See.md"] == b"see [[far/Second]]\n"


@pytest.mark.parametrize(
    ("target", "source", "file"),
    [
        ("Note", "x/Source.md", "x/y/Note.md"),  # below the folder of the link before a shorter path
        ("note", "Source.md", "a/Note.md"),
        ("y/Note", "Source.md", "x/y/Note.md"),
        ("x/y/note.md", "a/Source.md", "x/y/Note.md"),
        ("./Note", "a/Source.md", "a/Note.md"),
        ("../a/Note", "x/Source.md", "a/Note.md"),
        ("/Note", "a/Source.md", None),
        ("pic", "Source.md", None),
        ("PIC.png", "a/Source.md", "pic.png"),
        ("Cafe\u0301", "Source.md", "Caf\u00e9.md"),
        ("v1.2", "Source.md", "v1.2.md"),
        ("", "Source.md", "Source.md"),
    ],
)
def test_a_link_means_the_file_that_obsidian_opens(target: str, source: str, file: str | None) -> None:
    files = Links(["a/Note.md", "x/y/Note.md", "pic.png", "Caf\u00e9.md", "v1.2.md", "Source.md"])
    assert files.resolve(target, source) == file
