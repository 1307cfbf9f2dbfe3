"""The files that completion offers: what ignore files leave, the best fit first."""

from __future__ import annotations

from pathlib import Path

from ferrule.cli.chatting.mentions import FileNames
from ferrule.core.context import Session


async def test_names_fit_by_their_beginning_then_by_their_last_piece_then_anywhere(tmp_path: Path) -> None:
    for name in ("main.py", "src/main_window.py", "docs/domain.md", "other.txt", "build/main.o", ".gitignore"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("build/\n" if name == ".gitignore" else "")
    (tmp_path / ".git").mkdir()
    names = FileNames(Session(workspace=tmp_path))
    assert await names.matching("main") == ["main.py", "src/main_window.py", "docs/domain.md"]
    assert await names.matching("MAIN.P") == ["main.py"]
    assert await names.matching("", most=2) != []
    assert await names.matching("nothing") == []


async def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert await FileNames(Session(workspace=tmp_path / "gone")).matching("a") == []
