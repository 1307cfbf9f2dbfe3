"""Sessions of shell commands in a Ferrule of its own, as root and as an ordinary user, each in a fresh workspace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.process.shell.test_ownership import USERS, python_for

SECRETS = {
    "OPENAI_API_KEY": "sk-shownsecret",
    "AWS_SECRET_ACCESS_KEY": "shownsecret",
    "GITHUB_TOKEN": "ghp_shownsecret",
    "DATABASE": "postgres://u:shownsecret@h/d",
}
PROJECT = Path(__file__).parents[2]
__all__ = ["SECRETS", "USERS", "Ferrule", "Told"]


@dataclass(frozen=True)
class Told:
    """One result, as the server tells it."""

    words: str
    data: Any
    error: str | None
    details: Any

    @property
    def out(self) -> str:
        return self.data["stdout"] if self.data else ""

    @property
    def code(self) -> int | None:
        return self.data["exit_code"] if self.data else None


def as_user(uid: int) -> dict[str, Any]:
    return {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}


class Ferrule:
    """A process that runs sessions for one user, in a folder that every user can reach."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.room = Path(tempfile.mkdtemp(prefix="ferrule-test-"))
        self.count = 0
        for name in ("home", "data", "temporary"):
            self.folder(name)
        self.own(self.room)
        self.room.chmod(0o755)
        self.process = self.start("tests.builtin.shell_server")

    @property
    def environment(self) -> dict[str, str]:
        places = [str(PROJECT / "src"), str(PROJECT), *(path for path in sys.path if "site-packages" in path)]
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.room / "home"),
            "FERRULE_DATA": str(self.room / "data"),
            "TMPDIR": str(self.room / "temporary"),
            "PYTHONPATH": os.pathsep.join(places),
            "PYTHONDONTWRITEBYTECODE": "1",
            **SECRETS,
        }

    def start(self, module: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        program = python_for(self.uid)
        assert program is not None
        return subprocess.Popen(
            # Whoever runs the tests in the background of a shell has Ctrl-C ignored, and that is inherited.
            ["env", "--default-signal=INT", program, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment | variables,
            cwd="/",
            **as_user(self.uid),
        )

    def folder(self, name: str) -> Path:
        made = self.room / name
        made.mkdir()
        self.own(made)
        return made

    def workspace(self, files: dict[str, str] | None = None, name: str = "") -> Path:
        self.count += 1
        root = self.folder(name or f"workspace{self.count}")
        for path, text in (files or {}).items():
            whole = root / path
            whole.parent.mkdir(parents=True, exist_ok=True)
            whole.write_text(text)
        self.own(root)
        return root

    def own(self, folder: Path) -> None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def ask(self, workspace: Path, *steps: Any, **given: Any) -> list[Told]:
        """The results of commands, or of steps as the server takes them, in one session."""
        asked = [["Bash", {"command": step}] if isinstance(step, str) else step for step in steps]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"workspace": str(workspace), "steps": asked, **given}) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert isinstance(told, list), told
        return [Told(**one) for one in told]

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait(30)
        shutil.rmtree(self.room, ignore_errors=True)
