"""ripgrep held tight: which binary, what it may do, and what its complaints mean."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import os
import sysconfig
import threading
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.needs import slow
from tests.workspace.desk import Desk

from ferrule import Runtime, Session, ToolError
from ferrule.builtin.all_tools import builtin_tools
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching import ripgrep as module
from ferrule.workspace.searching.ripgrep import UnsupportedByDefault, find_ripgrep, ripgrep, understand


def run(paths: Paths, pattern: str, *flags: str, path: str = ".") -> tuple[bytes, str, int]:
    async def main() -> tuple[bytes, str, int]:
        async with ripgrep(find_ripgrep(paths), paths.find(path), flags, pattern) as running:
            output = b"".join([piece async for piece in running.output()])
            code = await running.ended()
        return output, running.complaints, code

    return asyncio.run(main())


def test_the_binary_beside_the_interpreter_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths([tmp_path])
    assert find_ripgrep(paths) == str(Path(sysconfig.get_path("scripts")) / "rg")
    monkeypatch.setattr(module, "_bundled", lambda: None)
    (tmp_path / "rg").write_text("#!/bin/sh\n")
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="not installed"):
        find_ripgrep(paths)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Grep", {"pattern": "x"}),
        ("Glob", {"pattern": "*"}),
        ("searchFiles", {"pattern": "*"}),
        ("FileSearch", {"pattern": "x"}),
        ("FileSearch", {"pattern": "x", "replace_with": "y"}),
    ],
)
def test_without_it_a_search_says_what_to_install(
    tool: str, arguments: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_bundled", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = asyncio.run(Runtime(builtin_tools(family="all"), session=Session(workspace=tmp_path)).run(tool, arguments))
    assert result.llm_content == snapshot("""\
Error (execution_error): Searching needs ripgrep, which is not installed.

Suggestion: Install it with `pip install 'ferrule[files]'`, or put `rg` on PATH.\
""")


def test_no_configuration_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rc").write_text("--files\n")
    (tmp_path / "a.txt").write_text("needle\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    assert run(Paths([tmp_path]), "needle")[0] == b"./a.txt\0needle\n"


@pytest.mark.parametrize("pattern", ["--pre=/bin/sh", "-f/etc/passwd", "-z", "--hostname-bin=x", "--", "-"])
def test_a_pattern_is_never_an_option(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"x {pattern} y\n")
    output, complaints, code = run(Paths([tmp_path]), pattern)
    assert (output, complaints, code) == (f"./a.txt\0x {pattern} y\n".encode(), "", 0)


def test_a_file_named_like_an_option_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "--pre=sh").write_text("needle\n")
    assert run(Paths([tmp_path]), "needle", path="--pre=sh")[0].endswith(b"needle\n")


def words(complaints: str, pattern: str = "foo{", *, with_pcre2: bool = False) -> str:
    with pytest.raises(ToolError) as stopped:
        understand(complaints, pattern, with_pcre2=with_pcre2)
    assert stopped.value.kind == "validation_error"
    return f"{stopped.value.message} | {stopped.value.suggestion}"


def test_what_its_complaints_mean_to_a_model(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    paths = Paths([tmp_path])
    said = {
        pattern: words(run(paths, pattern)[1], pattern)
        for pattern in ("foo{", "a(b", "[z-a]", "*x", "a\\nb", "x{1000}{1000}{1000}", "\\p{Nope}")
    }
    assert said == snapshot(
        {
            "foo{": "The pattern cannot be searched for: repetition quantifier expects a valid decimal, at its end. | To search for the text as it stands, escape it: `foo\\{`.",
            "a(b": "The pattern cannot be searched for: unclosed group: a `(` has no `)`. | To search for the text as it stands, escape it: `a\\(b`.",
            "[z-a]": "The pattern cannot be searched for: invalid character class range, the start must be <= the end, at character 2 (`z-a]`). | To search for the text as it stands, escape it: `\\[z-a\\]`.",
            "*x": "The pattern cannot be searched for: repetition operator missing expression, at character 1 (`*x`). | To search for the text as it stands, escape it: `\\*x`.",
            "a\\nb": "The pattern cannot be searched for: it contains a line break, and lines are searched one at a time. | Set `multiline` to true to search across.",
            "x{1000}{1000}{1000}": "The pattern cannot be searched for: it is too large once its repetitions are written out. | Use smaller repetition counts.",
            "\\p{Nope}": "The pattern cannot be searched for: Unicode property not found, at character 1 (`\\p{Nope}`). | Put a backslash before each special character that is meant as it stands: `\\{`, `\\(`, `\\[`.",
        }
    )
    assert words(run(paths, "x", "--type=nope")[1]) == snapshot(
        "There is no file type `nope`. | Types are names such as `py`, `js`, `ts`, `rust`, `go` and `md`. Or use `glob`: `*.nope`."
    )
    assert words(run(paths, "x", "--glob=[a")[1]) == snapshot(
        "The glob `[a` cannot be read: unclosed character class. | Put a special character in brackets to mean itself: `[[]`, `[{]`, `[*]`."
    )
    assert words(run(paths, "(a", "--pcre2")[1]) == snapshot(
        "The pattern cannot be searched for: missing closing parenthesis. | To search for the text as it stands, escape it: `foo\\{`."
    )


def test_look_around_asks_for_the_other_engine(tmp_path: Path) -> None:
    for pattern in ("(?<=a)b", r"(a)\1", "(?!x)"):
        complaints = run(Paths([tmp_path]), pattern)[1]
        with pytest.raises(UnsupportedByDefault):
            understand(complaints, pattern)
    missing = "rg: PCRE2 is not available in this build of ripgrep\n"
    assert words(missing, "(?!x)", with_pcre2=True) == snapshot(
        "The pattern cannot be searched for: it uses look-around or a backreference, and this ripgrep has no PCRE2. | Write it without."
    )


def test_files_that_cannot_be_read_stop_nothing() -> None:
    skipped = understand(
        "rg: ./a: Permission denied (os error 13)\n"
        "rg: ./b c: Permission denied (os error 13)\n"
        "rg: /above/.gitignore: Permission denied (os error 13)\n"
        "rg: ./gone: No such file or directory (os error 2)\n"
        "rg: ./x.txt: PCRE2: error matching: match limit exceeded\n"
        "rg: ./y: Input/output error (os error 5)\n",
        "x",
    )
    assert skipped.notes() == snapshot(
        [
            "2 places could not be read: permission denied.",
            "The pattern was abandoned in 1 file: too many ways to match. Make it simpler.",
            "1 file could not be read.",
        ]
    )


def test_a_pipe_that_took_the_place_of_a_file_holds_no_search(tmp_path: Path) -> None:
    """ripgrep passes over pipes that it sees, but waited for a writer to one that it took for a file."""
    (tmp_path / "a").write_text("foo\n")
    os.mkfifo(tmp_path / "pipe")
    paths = Paths([tmp_path])

    async def main() -> tuple[bytes, int]:
        program = find_ripgrep(paths)
        assert program is not None
        names = [b"./a", b"./pipe"]
        async with ripgrep(program, paths.find("."), ("--files-with-matches",), "foo", names=names) as running:
            return b"".join([piece async for piece in running.output()]), await running.ended()

    assert asyncio.run(asyncio.wait_for(main(), 60)) == (b"./a\0", 0)


@pytest.mark.parametrize(
    "name", [".gitignore", *map(slow, (".ignore", ".rgignore", ".ferruleignore", ".git/info/exclude"))]
)
async def test_an_ignore_file_that_is_a_pipe_holds_no_tool(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path / "ws")
    desk.put("a", "foo\n")
    (desk.workspace / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(desk.workspace / name)
    for tool, arguments, said in (
        ("Glob", {"pattern": "a"}, "Found 1 file."),
        ("Grep", {"pattern": "foo"}, "Found 1 file with a match."),
        ("FileSearch", {"pattern": "foo"}, "Found 1 matching line in 1 file."),
        ("FileSearch", {"pattern": "foo", "replace_with": "bar", "preview_only": False}, "Replaced 1 match in 1 file."),
    ):
        result = await asyncio.wait_for(desk.runtime.run(tool, arguments), 60)
        assert result.llm_content.startswith(said), result.llm_content
        assert "stopped after" not in result.llm_content


@pytest.mark.slow
async def test_a_file_that_turns_into_a_pipe_and_back_holds_no_search(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "ws")
    for n in range(300):
        desk.put(f"d{n % 7}/f{n}", "foo\n")
    over = threading.Event()

    def swap() -> None:
        n = 0
        while not over.is_set():
            n = (n + 1) % 300
            path = desk.workspace / f"d{n % 7}" / f"f{n}"
            os.mkfifo(tmp_path / "pipe")
            (tmp_path / "pipe").replace(path)
            (tmp_path / "file").write_text("foo\n")
            (tmp_path / "file").replace(path)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(10):
            result = await asyncio.wait_for(desk.runtime.run("FileSearch", {"pattern": "foo"}), 60)
            assert "stopped after" not in result.llm_content
    finally:
        over.set()
        swapping.join()
