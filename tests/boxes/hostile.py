"""A repository whose every corner wants to run something, and commands that look harmless in it and are not.

No safety rests on reading a command. They are here so that whoever changes a box sees at once what it let through.
"""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

SECRET = "hunter2-never-shown"
_CORPUS = Path(__file__).parent / "corpus"


def commands(name: str) -> list[str]:
    """Those of one corpus, which `%%` stands between."""
    return [one.strip("\n") for one in (_CORPUS / f"{name}.txt").read_text().split("\n%%\n")]


def tree(root: Path) -> dict[str, tuple[int, str, bytes]]:
    """Everything below a folder: kind and mode, where a link leads, what a file holds."""
    found: dict[str, tuple[int, str, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            state = path.lstat()
            target = str(path.readlink()) if stat.S_ISLNK(state.st_mode) else ""
            held = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
            found[str(path.relative_to(root))] = (state.st_mode, target, held)
    return found


def hostile_repository(folder: Path) -> Path:
    """Its settings, hooks, filters and files name programs at every turn; four files hold a secret."""
    root = folder / "repo"
    root.mkdir()

    def git(*words: str) -> None:
        subprocess.run(
            ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words),
            cwd=root,
            check=True,
            capture_output=True,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        )

    git("init", "-q", "-b", "main")
    for name in ("sub/deep", "empty", "hooks", "bin"):
        (root / name).mkdir(parents=True)
    held = {
        "a.txt": "alpha\nbeta\n",
        "b.txt": "gamma\n",
        "-oX.txt": "x\n",
        "a.json": '{"a": 1}\n',
        "sub/c.py": "c = 1\n",
        "prog.awk": '{ system("touch pwned") }\n',
        "script.sh": "#!/bin/sh\ntouch pwned\n",
        "tool.py": "open('pwned', 'w')\n",
        "Makefile": "X := $(shell touch pwned)\nall: ; touch pwned\n",
        "other.mk": "all: ; touch pwned\n",
        "hex.txt": "616263\n",
        "b64.txt": "YWJj\n",
        "lesskey": "#env\nLESSOPEN=|touch pwned\n",
        "change.patch": "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n-alpha\n+ALPHA\n beta\n",
        ".gitattributes": "*.txt diff=evil filter=evil\n",
        ".gitignore": "*.ignored\n",
        "hooks/pre-commit": "#!/bin/sh\ntouch pwned\n",
        "hooks/post-checkout": "#!/bin/sh\ntouch pwned\n",
        "bin/git-status": "#!/bin/sh\ntouch pwned\n",
        "bin/git": "#!/bin/sh\ntouch pwned\n",
    }
    for name, text in held.items():
        (root / name).write_text(text)
        if text.startswith("#!"):
            (root / name).chmod(0o755)
    git("add", ".")
    git("commit", "-qm", "first")
    (root / "a.txt").write_text("alpha\nbeta\ndelta\n")
    git("commit", "-qam", "second")
    with (root / ".git/config").open("a") as config:
        config.write(
            '[core]\n\tfsmonitor = "touch pwned; false"\n\tpager = touch pwned\n\thooksPath = hooks\n'
            '[diff "evil"]\n\ttextconv = "touch pwned; cat"\n\tcommand = "touch pwned"\n'
            '[filter "evil"]\n\tclean = "touch pwned; cat"\n\tsmudge = "touch pwned; cat"\n'
            '[alias]\n\tx = "!touch pwned"\n'
        )
    for name in (".env", "sub/.env.production", "sub/deep/.env", "id_rsa"):
        (root / name).write_text(f"TOKEN={SECRET}\n")
    (root / "link-to-env").symlink_to(".env")
    subprocess.run(("tar", "cf", "archive.tar", "b.txt"), cwd=root, check=True)
    return root
