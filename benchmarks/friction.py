"""How often a user is asked: everyday commands, builds and tests, and edits, each run for real through the pipeline.

    python benchmarks/friction.py [--markdown]

Exits with 1 when an everyday reading command, a build or a test asks in default mode, when a build leaves something in
the workspace, or when fewer than 41 of 44 commands run without a question in `accept-edits` and keep their changes.
A program that is not installed is named and left out.
"""

# ruff: noqa: E501 - lists of commands

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from ferrule import Answer, Choice, Question, RulePolicy, Runtime, Session, ToolResult
from ferrule.tools import builtin_tools

READING = """
ls|ls -la|ls src|pwd|whoami|date|uname -a|env|cat src/app.py|head -n 3 src/app.py|tail -n 3 src/app.py|wc -l src/*.py
cat src/*.py|sort data.txt|sort data.txt|uniq -c|cut -d, -f1 data.txt|tr a-z A-Z < data.txt|sed -n 1,2p src/app.py
sed 's/a/b/' data.txt|awk '{print $1}' data.txt|grep -rn def src|grep -c a data.txt|find . -name '*.py'|find . -type f | head
find src -name '*.py' -exec wc -l {} +|ls | xargs -n1 echo|du -sh src|df -h .|stat data.txt|file data.txt|tree -L 1
diff data.txt other.txt|cmp data.txt data.txt|md5sum data.txt|sha256sum data.txt|base64 data.txt|xxd data.txt | head -1
which python3|type ls|echo $HOME|printf '%s\\n' a b|test -f data.txt && echo yes|[ -d src ] && ls src|seq 3|basename $PWD
git status|git log --oneline|git diff|git diff HEAD~1|git show HEAD|git branch|git blame data.txt|git ls-files|git grep def
git stash list|git remote -v|git rev-parse HEAD|git describe --always|git shortlog -s HEAD|git config --list
python3 --version|python3 -c 'print(1 + 1)'|python3 -m json.tool data.json|node --version|node -e 'console.log(1)'
for f in src/*.py; do echo "$f"; done|x=1; echo $x|cd src && ls|ps aux | head -2|id|jq . data.json|column -t data.txt
tar tf archive.tar|unzip -l archive.zip|zcat data.txt.gz|less data.txt|more data.txt|nl data.txt|rev data.txt|tac data.txt
echo see https://example.org/docs|cat data.txt | tee /dev/null|history|alias|ulimit -a|locale|getconf PAGE_SIZE|nproc|free
"""

BUILDS = {
    "python": ["python -m pytest -q", "ruff check .", "python -m json.tool data.json", "python -c 'import app'"],
    "node": ["npm test --silent", "node test.js"],
    "make": ["make", "make test"],
    "cargo": ["cargo build --offline -q", "cargo test --offline -q"],
    "go": ["go build ./...", "go test ./..."],
}

EDITS = """
mkdir made|mkdir -p deep/er|touch new.txt|echo x > out.txt|echo x >> data.txt|printf 'a\\n' | tee tee.txt|cp data.txt copy.txt
cp -r src src2|mv other.txt moved.txt|mv src2 src3|sed -i s/a/A/ data.txt|sed -i.bak s/A/a/ data.txt|perl -pi -e s/a/A/ data.txt
python3 -c 'open("py.txt", "w").write("x")'|awk '{print}' data.txt > awk.txt|sort data.txt -o sorted.txt|head -1 data.txt > head.txt
chmod +x run.sh|ln -s data.txt link|ln -sf src/app.py link2|truncate -s 0 empty.txt|dd if=data.txt of=dd.txt status=none
tar cf new.tar src|tar xf archive.tar|gzip -k data.txt|split -l 1 data.txt part|patch -p0 < change.patch|git mv src/util.py src/tool.py
git add .|git rm -q --cached data.json|rm tracked.txt|rm -r gone|cat > here.txt <<< hello|install -m 644 data.txt inst.txt
python3 -m pytest -q|make|node -e 'require("fs").writeFileSync("n.txt", "x")'|npm test --silent|ruff format -q src
find . -name '*.tmp' -delete|rename_me=1; echo $rename_me > var.txt|bash run.sh|for i in 1 2; do echo $i > f$i; done
python3 -m venv .venv
"""


@dataclass
class Outcome:
    command: str
    result: ToolResult
    asked: int
    seconds: float


class Desk:
    """A session in a project, with a user who says no to everything and is counted."""

    def __init__(self, root: Path, mode: str) -> None:
        self.session = Session(workspace=root)
        self._asked = 0
        self.runtime = Runtime(builtin_tools(), session=self.session, policy=RulePolicy(mode=mode), ask=self._ask)

    def _ask(self, question: Question) -> Answer:
        self._asked += 1
        return Answer(Choice.NO)

    async def run(self, command: str) -> Outcome:
        before, began = self._asked, perf_counter()
        result = await self.runtime.run("Bash", {"command": command, "timeout": 300_000})
        return Outcome(command, result, self._asked - before, perf_counter() - began)


def listed(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in _split(line)]


def _split(line: str) -> list[str]:
    """Commands stand between bars; a bar with spaces around it is a pipe."""
    marked = line.replace(" | ", "\0")
    return [part.replace("\0", " | ") for part in marked.split("|")]


def project(folder: Path) -> Path:
    """A small project of several languages under git."""
    root = folder / "project"
    files = {
        ".gitignore": "__pycache__/\n.pytest_cache/\n.ruff_cache/\ntarget/\nbuild/\nnode_modules/\n*.tmp\n",
        "src/app.py": "def main():\n    return 1\n",
        "src/util.py": "def util():\n    return 2\n",
        "app.py": "VALUE = 1\n",
        "test_app.py": "import app\n\n\ndef test_value():\n    assert app.VALUE == 1\n",
        "data.txt": "b,2\na,1\nc,3\n",
        "other.txt": "other\n",
        "tracked.txt": "tracked\n",
        "gone/one.txt": "one\n",
        "data.json": '{"a": 1}\n',
        "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"test": "node test.js"}}\n',
        "test.js": "console.log('ok')\n",
        "Makefile": "all:\n\tmkdir -p build && cp data.txt build/out\ntest: all\n\tgrep -q a build/out\n",
        "run.sh": "#!/bin/sh\necho ran > ran.txt\n",
        "change.patch": "--- other.txt\n+++ other.txt\n@@ -1 +1 @@\n-other\n+patched\n",
        "rust/Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
        "rust/src/lib.rs": "pub fn one() -> i32 { 1 }\n#[test]\nfn is_one() { assert_eq!(one(), 1); }\n",
        "go/go.mod": "module x\n\ngo 1.18\n",
        "go/x.go": "package x\n\nfunc One() int { return 1 }\n",
        "go/x_test.go": 'package x\n\nimport "testing"\n\nfunc TestOne(t *testing.T) { if One() != 1 { t.Fail() } }\n',
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    subprocess.run(("tar", "cf", "archive.tar", "data.txt"), cwd=root, check=True)
    subprocess.run("gzip -kc data.txt > data.txt.gz", shell=True, cwd=root, check=True)
    if shutil.which("cargo"):
        subprocess.run(("cargo", "generate-lockfile", "--offline", "-q"), cwd=root / "rust", check=True)
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("commit", "-qm", "one"),
        ("commit", "-q", "--allow-empty", "-m", "two"),
    ):
        subprocess.run(
            ("git", "-c", "user.name=x", "-c", "user.email=x@y.z", *words), cwd=root, check=True, env=environment
        )
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for path in root.rglob("*")
        if ".git" not in path.relative_to(root).parts
    }


async def reading(root: Path) -> list[Outcome]:
    desk = Desk(root, "default")
    found = [await desk.run(command) for command in listed(READING)]
    await desk.session.close()
    return found


async def building(root: Path) -> tuple[list[tuple[Outcome, Outcome]], list[str]]:
    """Each twice in one session, the second time with what the first left in the session's layer."""
    pairs: list[tuple[Outcome, Outcome]] = []
    missing: list[str] = []
    for kind, commands in BUILDS.items():
        if kind in ("cargo", "go", "make") and shutil.which(kind) is None:
            missing.append(kind)
            continue
        if kind == "node" and shutil.which("npm") is None:
            missing.append("npm")
            continue
        folder = {"cargo": "rust", "go": "go"}.get(kind, ".")
        desk = Desk(root, "default")
        await desk.run(f"cd {folder}; export PATH={Path(sys.executable).parent}:$PATH")
        pairs += [(await desk.run(command), await desk.run(command)) for command in commands]
        await desk.session.close()
    return pairs, missing


async def editing(folder: Path) -> list[tuple[Outcome, bool]]:
    """Each in a project of its own, and whether what it changed is there afterwards."""
    found: list[tuple[Outcome, bool]] = []
    for number, command in enumerate(listed(EDITS)):
        here = folder / str(number)
        here.mkdir()
        root = project(here)
        desk = Desk(root, "accept-edits")
        await desk.run(f"export PATH={Path(sys.executable).parent}:$PATH")
        outcome = await desk.run(command)
        await desk.session.close()
        effects = outcome.result.metadata.get("effects")
        # What git staged is not among the changed files.
        kept = effects is None or outcome.result.metadata.get("changed", 0) > 0 or bool(effects["git"])
        found.append((outcome, kept))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="print the table of the docs")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        root = project(Path(made))
        before = contents(root)
        read = asyncio.run(reading(root))
        built, missing = asyncio.run(building(root))
        untouched = contents(root) == before
        edits_folder = Path(made, "edits")
        edits_folder.mkdir()
        edited = asyncio.run(editing(edits_folder))
    asked_reading = [one.command for one in read if one.asked]
    asked_building = [one.command for pair in built for one in pair if one.asked]
    failed_building = [one.command for pair in built for one in pair if not one.result.success]
    kept = [outcome.command for outcome, kept in edited if not outcome.asked and kept]
    lost = [(outcome.command, outcome.asked) for outcome, kept in edited if outcome.asked or not kept]
    bar = "|" if chosen.markdown else " "
    print(f"{bar} everyday reading commands, default mode {bar} {len(read)} {bar} {len(asked_reading)} asked {bar}")
    print(
        f"{bar} builds and tests, twice each, default mode {bar} {2 * len(built)} {bar} {len(asked_building)} asked {bar}"
    )
    print(
        f"{bar} build, test and edit commands, accept-edits {bar} {len(edited)} {bar} {len(edited) - len(kept)} asked {bar}"
    )
    for first, second in built:
        print(f"  {first.command:32} {first.seconds:6.2f} s, again {second.seconds:6.2f} s")
    for title, names in (
        ("asked while reading", asked_reading),
        ("asked while building", asked_building),
        ("failed while building", failed_building),
        ("not kept in accept-edits", lost),
        ("not installed, left out", missing),
    ):
        if names:
            print(f"{title}: {names}")
    if not untouched:
        print("A build or a reading command left something in the workspace.")
    return int(bool(asked_reading or asked_building) or not untouched or len(kept) < len(edited) - 3)


if __name__ == "__main__":
    sys.exit(main())
