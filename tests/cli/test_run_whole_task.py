"""A whole task on a real project, from `ferrule run --json` to `ferrule undo`: the record matches it call for call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Command

STATISTICS = """\
def total(values):
    return sum(values)


def mean(values):
    return total(values) / (len(values) - 1)
"""
TEST = """\
import unittest

from statistics_of_mine import mean


class MeanTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 3]), 2)


if __name__ == "__main__":
    unittest.main()
"""
CHECK = "python3 test_mean.py"


@pytest.fixture
def project(ferrule: Command) -> Path:
    """A git project with a bug and a test that shows it."""
    folder = ferrule.workspace
    (folder / "statistics_of_mine.py").write_text(STATISTICS)
    (folder / "test_mean.py").write_text(TEST)
    (folder / ".gitignore").write_text("__pycache__/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "A mean")
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True).stdout


def asks(*named: tuple[str, dict[str, Any]], text: str) -> dict[str, Any]:
    return {"text": text, "calls": [{"name": name, "arguments": arguments} for name, arguments in named]}


SCRIPT = [
    asks(
        ("Grep", {"pattern": "def mean", "output_mode": "content", "-A": 2}),
        ("Bash", {"command": CHECK, "description": "run the tests"}),
        text="I look for it and run the tests.",
    ),
    asks(("Read", {"file_path": "statistics_of_mine.py"}), text="It divides by one too few."),
    asks(
        (
            "Edit",
            {
                "file_path": "statistics_of_mine.py",
                "old_string": "(len(values) - 1)",
                "new_string": "len(values)",
            },
        ),
        text="I mend it.",
    ),
    asks(("Bash", {"command": CHECK, "description": "run the tests"}), text="And run the tests again."),
    "`mean` divided by one too few; the test passes now.",
]


def run(ferrule: Command, *options: str) -> Any:
    script = ferrule.folder / "script.json"
    script.write_text(json.dumps(SCRIPT))
    return ferrule(
        "run", "The test of mean fails. Mend it.", f"--model=scripted:{script}", "--json", "--mode", "accept-edits",
        *options, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin",
    )  # fmt: skip


def test_a_bug_is_found_mended_tested_and_undone_and_the_record_matches(ferrule: Command, project: Path) -> None:
    done = run(ferrule, "--allow", f"Bash({CHECK})")
    assert done.code == 0, done.err
    document = done.json
    assert (document["ending"], document["steps"]) == ("done", 5)
    assert document["text"] == "`mean` divided by one too few; the test passes now."

    grep, failing, read, edit, passing = document["calls"]
    assert "statistics_of_mine.py" in grep["result"]["llm_content"]
    assert failing["result"]["data"]["exit_code"] == 1
    assert "3.0 != 2" in failing["result"]["llm_content"]
    assert read["result"]["metadata"]["total_lines"] == 6
    assert "+    return total(values) / len(values)" in edit["result"]["metadata"]["diff"]
    assert passing["result"]["data"]["exit_code"] == 0
    assert git(project, "status", "--porcelain") == " M statistics_of_mine.py\n"

    rows = json.loads(ferrule("audit", "list", "--session", document["session_id"], "--json").out)
    recorded = sorted(rows, key=lambda row: row["seq"])
    assert {row["call_id"]: row["tool"] for row in recorded} == {
        call["call_id"]: call["tool"] for call in document["calls"]
    }
    assert len(recorded) == len(document["calls"])
    failed = [row["call_id"] for row in recorded if row["outcome"] != "success"]
    assert failed == [failing["call_id"]], "a command that ends with another code than 0 is a failed call"
    assert [row["tool"] for row in recorded[2:]] == ["Read", "Edit", "Bash"], "one after the other, as they depend"
    by_id = {row["call_id"]: row for row in recorded}
    for call in document["calls"]:
        assert json.loads(by_id[call["call_id"]]["arguments"]) == call["arguments"]
    assert ferrule("audit", "verify").code == 0

    undone = ferrule("undo", "--json")
    assert undone.code == 0, undone.out
    assert undone.json["done"][0]["call_id"] == edit["call_id"]
    assert (project / "statistics_of_mine.py").read_text() == STATISTICS
    assert git(project, "status", "--porcelain") == ""


def test_what_has_no_leave_is_refused_and_recorded_as_that(ferrule: Command, project: Path) -> None:
    script = ferrule.folder / "script.json"
    command = asks(("Bash", {"command": "touch made && python3 test_mean.py"}), text="")
    script.write_text(json.dumps([command, "I may not run the tests."]))
    done = ferrule("run", "Run the tests.", f"--model=scripted:{script}", "--json")
    assert done.code == 3
    (call,) = done.json["calls"]
    assert call["result"]["error"]["type"] == "permission_error"
    (row,) = json.loads(ferrule("audit", "list", "--json").out)
    assert (row["call_id"], row["outcome"]) == (call["call_id"], "permission_error")
    assert not (project / "made").exists()
