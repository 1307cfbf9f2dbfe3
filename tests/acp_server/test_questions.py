"""What an editor is given of a question (P4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ferrule import Session
from ferrule.acp_server.updates import asked
from ferrule.builtin.bash import bash
from ferrule.core.call import Effects, FileEffect
from ferrule.core.events import Question
from tests.policy.stand_in import invoke


def test_an_editor_gets_every_file_with_the_only_deletion_first(tmp_path: Path) -> None:
    files = [FileEffect("create", f"/w/out/{at}", f"out/{at}") for at in range(300)]
    effects = Effects((*files, FileEffect("create", "/w/p\u0430y", "p\u0430y"), FileEffect("delete", "/w/zzz", "zzz")))
    invocation = invoke(bash, Session(workspace=tmp_path), command="make")
    question = Question(invocation, effects.reason, "", warning="This command is dangerous.", effects=effects)
    update, _ = asked(question, tmp_path, str)
    first, last = [one.content.text for one in cast("Any", update.content)]
    assert "    delete zzz\n    create p\\u{430}y\n    create 300 files in out/: 0, 1, 2, …" in first
    assert "Warning: it contains misleading characters in file names" in first
    assert "Warning: This command is dangerous." in first
    every = last.split("\n")
    assert every[:4] == ["Every file:", "", "    delete zzz", "    create p\\u{430}y"]
    assert every[4:] == [f"    create out/{at}" for at in range(300)]
