"""The changes of a whole program are undone, and redone, as one (T10, X4)."""

from __future__ import annotations

from pathlib import Path

from ferrule import RulePolicy, Runtime, Session
from ferrule.builtin.all_tools import builtin_tools
from ferrule.code import RunCode

CODE = """
for name in ["a", "b", "c"]:
    await Write(file_path=f"{name}.txt", content=f"new {name}")
await Edit(file_path="a.txt", old_string="new", new_string="newer")
await Bash(command="echo more >> b.txt")
"""


def files(folder: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in sorted(folder.glob("*.txt"))}


async def changed(folder: Path) -> Runtime:
    (folder / "d.txt").write_text("d")
    session = Session(workspace=folder)
    runtime = Runtime([RunCode(builtin_tools()), *builtin_tools()], policy=RulePolicy(mode="bypass"), session=session)
    await runtime.run("Write", {"file_path": "before.txt", "content": "before"})
    result = await runtime.run("run_code", {"code": CODE})
    assert result.success, result.llm_content
    return runtime


AFTER = {"a.txt": "newer a", "b.txt": "new bmore\n", "before.txt": "before", "c.txt": "new c", "d.txt": "d"}
BEFORE = {"before.txt": "before", "d.txt": "d"}


async def test_the_newest_change_is_the_program(tmp_path: Path) -> None:
    runtime = await changed(tmp_path)
    history = runtime.session.history
    assert files(tmp_path) == AFTER
    calls = {group.origin.call for group in history.recent() if group.changes[0].path.name != "before.txt"}
    assert len(calls) == 1
    assert history.undo().refused is None
    assert files(tmp_path) == BEFORE
    assert history.redo().refused is None
    assert files(tmp_path) == AFTER
    assert history.undo(call=calls.pop()).refused is None
    assert files(tmp_path) == BEFORE
    history.undo()
    assert files(tmp_path) == {"d.txt": "d"}
    await runtime.session.close()


async def test_where_one_of_its_files_has_changed_since_nothing_is_undone(tmp_path: Path) -> None:
    runtime = await changed(tmp_path)
    (tmp_path / "c.txt").write_text("mine")
    report = runtime.session.history.undo()
    assert report.refused is not None
    assert files(tmp_path) == {**AFTER, "c.txt": "mine"}
    await runtime.session.close()


async def test_a_program_that_failed_half_way_is_undone_too(tmp_path: Path) -> None:
    runtime = Runtime([RunCode(builtin_tools())], policy=RulePolicy(mode="bypass"), session=Session(workspace=tmp_path))
    result = await runtime.run("run_code", {"code": f"{CODE}\n1 / 0"})
    assert not result.success
    assert len(files(tmp_path)) == 3
    runtime.session.history.undo()
    assert files(tmp_path) == {}
    await runtime.session.close()
