"""What a call says of the paths it is given (T6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.collisions import waits
from tests.workspace.desk import Desk

from ferrule import Answer, Choice, Decision, Environment, Invocation, Question, RulePolicy, Runtime, Session, Verdict
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.grep import grep
from ferrule.core.access import Touch, writes
from ferrule.workspace.files import paths_of


def test_a_session_has_one_set_of_paths(tmp_path: Path) -> None:
    more = tmp_path / "more"
    inner = tmp_path / "ws" / "inner"
    more.mkdir()
    inner.mkdir(parents=True)
    session = Session(workspace=tmp_path / "ws", working_directory=inner, environment=Environment(roots=[str(more)]))
    paths = paths_of(session)
    assert paths_of(session) is paths
    assert [root.path for root in paths.roots] == [tmp_path / "ws", more]
    assert paths.directory == inner


def test_what_a_search_touches_is_never_less_than_it_reads(tmp_path: Path) -> None:
    session = Session(workspace=tmp_path)
    inside = writes("path", tmp_path / "a" / "b.txt")
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")

    def touched(path: str) -> tuple[Touch, ...]:
        invocation = grep.build({"pattern": "x", "path": path})
        invocation.session = session
        return invocation.touches

    for path in (str(tmp_path / "a"), "a", "./a/", "link", "."):
        assert waits(touched(path), (inside,)), path
    assert not waits(touched(str(tmp_path / "c")), (inside,))


EDIT: dict[str, Any] = {"old_string": "mine", "new_string": "ours"}
TOOLS: dict[str, dict[str, Any]] = {
    "Read": {}, "readFile": {}, "Write": {"content": "x"}, "Edit": EDIT, "MultiEdit": {"edits": [EDIT]},
}  # fmt: skip


class Watching(RulePolicy):
    """Remembers what it was asked about."""

    def __init__(self) -> None:
        super().__init__(mode="accept-edits")
        self.asked: list[tuple[str, str, str]] = []

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        self.asked.append((invocation.signature, invocation.always_rule, invocation.summary))
        return super().decide(invocation, session)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_rule_and_a_person_are_asked_about_the_real_path(desk: Desk, tool: str) -> None:
    """T6: by an inner link, a relative path and a changed working directory it is still that file."""
    desk.put("real/f.txt", "mine\n")
    (desk.workspace / "link").symlink_to("real/f.txt")
    (desk.workspace / "folder").symlink_to(desk.workspace / "real")
    policy = desk.runtime.policy = Watching()
    given = ["real/f.txt", "link", "folder/f.txt", "./real//../link", str(desk.workspace / "link")]
    for path in given:
        desk.call(tool, path, **TOOLS[tool])
    desk.session.working_directory = desk.workspace / "real"
    for path in ("f.txt", "../link"):
        desk.call(tool, path, **TOOLS[tool])
    real = desk.workspace / "real/f.txt"
    assert set(policy.asked) == {(str(real), f"{tool}:{real.parent}/*", f"{tool} {real}")}
    assert len(policy.asked) == len(given) + 2


def test_a_path_that_will_be_refused_is_judged_by_where_it_would_have_led(desk: Desk) -> None:
    """A rule for the workspace must not cover `../x`."""
    (desk.workspace / "out").symlink_to("/etc")
    policy = desk.runtime.policy = Watching()
    for path in ("../x", "sub/../../x", "out/hosts", "f\0"):
        desk.read(path)
    top = desk.workspace.parent
    assert [asked[0] for asked in policy.asked] == [
        str(top / "x"), str(top / "x"), "/etc/hosts", f"{desk.workspace}/f\0",
    ]  # fmt: skip


def test_signs_of_a_pattern_in_a_folder_are_meant_as_they_stand(desk: Desk) -> None:
    desk.put("a[*]/f.txt", "mine\n")
    policy = desk.runtime.policy = Watching()
    desk.read("a[*]/f.txt")
    assert policy.asked[0][1] == f"Read:{desk.workspace}/a[[][*]]/*"


def test_always_holds_for_the_real_folder_and_no_other(desk: Desk) -> None:
    for name in ("src/a.txt", "src/b.txt", "src/deep/c.txt", "lib/d.txt"):
        desk.put(name, "mine\n")
    (desk.workspace / "src/out.txt").symlink_to("../lib/d.txt")
    (desk.workspace / "to-src").symlink_to("src")
    questions: list[Question] = []

    def ask(question: Question) -> Answer:
        questions.append(question)
        return Answer(Choice.ALWAYS)

    runtime = Runtime(builtin_tools(family="all"), ask=ask, session=desk.session)

    def edit(path: str) -> None:
        desk.read(path)
        asyncio.run(runtime.run("Edit", {"file_path": path, "old_string": "mine", "new_string": "ours"}))

    for path in ("src/a.txt", "src/b.txt", "to-src/b.txt"):
        edit(path)
    assert [one.rule for one in questions] == [f"Edit:{desk.workspace}/src/*"]
    edit("src/out.txt")  # lies in `src` by name alone
    edit("src/deep/c.txt")
    assert [one.rule for one in questions[1:]] == [f"Edit:{desk.workspace}/{one}/*" for one in ("lib", "src/deep")]
    assert questions[1].summary == f"Edit {desk.workspace}/lib/d.txt"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "{}/a.txt"}),
        ("Write", {"file_path": "{}/a.txt", "content": "x"}),
        ("Edit", {"file_path": "{}/a.txt", "old_string": "a", "new_string": "b"}),
        ("MultiEdit", {"file_path": "{}/a.txt", "edits": [{"old_string": "a", "new_string": "b"}]}),
        ("FileSearch", {"pattern": "a", "replace_with": "b", "preview_only": False, "path": "{}"}),
        ("Grep", {"pattern": "a", "path": "{}"}),
        ("Glob", {"pattern": "*", "path": "{}"}),
        ("LS", {"path": "{}"}),
        ("readFile", {"filePath": "{}/a.txt"}),
        ("listFiles", {"directoryPath": "{}"}),
        ("searchFiles", {"pattern": "*", "baseDir": "{}"}),
    ],
)
def test_nobody_is_asked_about_a_path_that_no_leave_opens(tool: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    workspace, outside = tmp_path / "ws", tmp_path / "outside"
    for folder in (workspace, outside):
        folder.mkdir()
        (folder / "a.txt").write_text("a\n")
    asked: list[str] = []

    def ask(question: Question) -> str:
        asked.append(question.summary)
        return "no"

    class AsksAlways(RulePolicy):
        def decide(self, invocation: Invocation, session: Session) -> Decision:
            return Decision(Verdict.ASK, "everything asks")

    session = Session(workspace=workspace)
    runtime = Runtime(builtin_tools(family="all"), session=session, policy=AsksAlways(), ask=ask)
    given = {key: value.format(outside) if isinstance(value, str) else value for key, value in arguments.items()}
    result = asyncio.run(runtime.run(tool, given))
    assert "is outside the workspace" in result.llm_content
    assert asked == []
    asyncio.run(Runtime(builtin_tools(family="all"), session=session).run("Read", {"file_path": "a.txt"}))
    inside = {key: value.format(".") if isinstance(value, str) else value for key, value in arguments.items()}
    assert "the user denied it" in asyncio.run(runtime.run(tool, inside)).llm_content
    assert len(asked) == 1
