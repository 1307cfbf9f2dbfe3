"""Grep, through the real pipeline on a real folder."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from time import monotonic

import pytest
from inline_snapshot import snapshot
from tests.builtin.search_workspace import ask, plant, words

from ferrule import Environment, PartialOutput, RawCall, Runtime, Session
from ferrule.builtin.grep import grep
from ferrule.core.lint import lint_tool
from ferrule.policy.decide import RulePolicy
from ferrule.policy.restrictions import RuleRestrictions
from ferrule.process.landlock import kernel_version
from ferrule.workspace.searching import search


def children() -> set[str]:
    """The rg processes that this process has."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            for child in (task / "children").read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "rg":
                    found.add(child)
        except OSError:  # a thread or a child that has ended by now
            continue
    return found


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(grep) == []
    assert list(grep.input_schema["properties"]) == [
        "pattern", "path", "glob", "type", "output_mode", "-A", "-B", "-C", "-i", "-n", "multiline", "head_limit",
    ]  # fmt: skip
    assert grep.description.text == snapshot("""\
Search the contents of files with a regular expression.

Use this to find where something is written: a name, a message, a setting. To find files by their name use Glob.

Usage notes:
- The syntax is ripgrep's: `log.*Error`, `fn\\s+\\w+`, `\\bword\\b`. Escape braces and parentheses that are meant as they stand: `interface\\{\\}`, `main\\(`. Look-around and backreferences work too, more slowly.
- Hidden files are searched. `.git`, `node_modules`, binary files, links, and what `.gitignore`, `.ignore` or `.ferruleignore` names are not, unless `path` starts there.
- Results are in order of path. When some are left out, the result says how many.

Examples:
- search for "FIXME" in the code: {"pattern": "FIXME"}
- show the lines that mention timeout in client.py: {"pattern": "timeout", "path": "client.py", "output_mode": "content"}\
""")


def test_good_cases(tmp_path: Path) -> None:
    root = plant(tmp_path)
    assert words(grep, root, {"pattern": "needle"}) == snapshot("""\
Found 7 files with a match.
-rf
.config/settings.toml
docs/a guide.md
docs/名前.md
src/app.py
src/util/text.py
src/view.ts\
""")
    assert words(grep, root, {"pattern": "needle", "output_mode": "content", "-i": True}) == snapshot("""\
Found 8 matching lines in 7 files.
-rf:1:needle
.config/settings.toml:1:key = 'needle'
docs/a guide.md:1:The needle.
docs/名前.md:1:needle 针
src/app.py:4:    print('needle')
src/util/text.py:1:NEEDLE = 1
src/util/text.py:2:# a needle, and a needle
src/view.ts:1:const needle = {}\
""")
    assert words(
        grep, root, {"pattern": "main", "output_mode": "content", "-B": 1, "-A": 1, "include": "*.py"}
    ) == snapshot("""\
Found 1 matching line in 1 file.
src/app.py-2-
src/app.py:3:def main():
src/app.py-4-    print('needle')\
""")
    assert words(grep, root, {"pattern": "needle", "output_mode": "count", "glob": "src/**/*.{py,ts}"}) == snapshot("""\
Found 3 matching lines in 3 files.
src/app.py:1
src/util/text.py:1
src/view.ts:1\
""")
    assert words(
        grep, root, {"pattern": r"main\(.*needle", "multiline": True, "output_mode": "content", "-n": False}
    ) == snapshot("""\
Found 2 matching lines in 1 file.
src/app.py:def main():
src/app.py:    print('needle')\
""")
    assert words(grep, root, {"pattern": "(?<=a )needle", "output_mode": "content", "head_limit": 1}) == snapshot("""\
Found 1 matching line in 1 file.
src/util/text.py:2:# a needle, and a needle
[Searched with PCRE2, because of look-around or backreferences; that is slower.]\
""")
    assert words(grep, root, {"pattern": "needle", "output_mode": "content", "head_limit": 2}) == snapshot("""\
Found 7 matching lines in 7 files.
-rf:1:needle
.config/settings.toml:1:key = 'needle'
[5 of 7 matching lines left out. Narrow with `path`, `glob` or `type`, or raise `head_limit`.]\
""")
    assert words(grep, root, {"pattern": "needle", "path": "build"}) == snapshot("""\
Found 1 file with a match.
build/out.txt\
""")


def test_no_match_is_a_success_that_says_so(tmp_path: Path) -> None:
    root = plant(tmp_path)
    result = ask(grep, root, {"pattern": "MAIN", "path": "src", "type": "py"})
    assert result.success
    assert result.llm_content == snapshot("""\
No match for `MAIN` in `src`.
[Possible next steps: set `-i` to true to ignore case; search a wider `path`; leave out `type`.]\
""")
    assert result.display_content == "found nothing"
    assert words(grep, root, {"pattern": "needle", "glob": "*.none"}) == snapshot("""\
No match for `needle` in `.`.
[Possible next steps: set `-i` to true to ignore case; leave out `glob`.]\
""")


def test_a_field_that_is_given_under_both_its_names_is_told_so(tmp_path: Path) -> None:
    """P2: and no field is suggested that cannot be meant."""
    told = words(grep, plant(tmp_path), {"pattern": "x", "glob": "*.py", "include": "*.md", "colour": 1})
    assert told.partition("\n\n")[0] == snapshot("""\
Error (validation_error): The arguments of `Grep` have 2 problems:
- `include`: another name for `glob`, which is already given. Give only one
- `colour`: unknown field. Known fields: `pattern`, `path`, `glob`, `type`, `output_mode`, `-A`, `-B`, `-C`, `-i`, `-n`, `multiline`, `head_limit`\
""")


def test_bad_cases(tmp_path: Path) -> None:
    root = plant(tmp_path)
    assert words(grep, root, {"pattern": "interface{}"}) == snapshot("""\
Error (validation_error): The pattern cannot be searched for: repetition quantifier expects a valid decimal, at character 11 (`}`).

Suggestion: To search for the text as it stands, escape it: `interface\\{\\}`.\
""")
    assert words(grep, root, {"pattern": "a\nb"}) == snapshot("""\
Error (validation_error): The pattern cannot be searched for: it contains a line break, and lines are searched one at a time.

Suggestion: Set `multiline` to true to search across.\
""")
    assert words(grep, root, {"pattern": "x", "path": "src/ap.py"}) == snapshot("""\
Error (not_found_error): There is no file at `src/ap.py`.

Suggestion: Did you mean `src/app.py`?\
""")
    assert words(grep, root, {"pattern": "x", "path": "../.."}) == snapshot("""\
Error (permission_error): `../..` is outside the workspace.

Suggestion: Use a path inside the workspace; relative paths start at its top.\
""")
    assert words(grep, root, {"pattern": "x", "glob": "../*"}) == snapshot("""\
Error (validation_error): The glob `../*` leads out with `..`.

Suggestion: Give the folder as `path`, and the glob below it.\
""")
    assert words(grep, root, {"pattern": "x", "glob": "[a"}) == snapshot("""\
Error (validation_error): The glob `[a` cannot be read: unclosed character class.

Suggestion: Put a special character in brackets to mean itself: `[[]`, `[{]`, `[*]`.\
""")
    assert words(grep, root, {"pattern": "x", "type": "python3"}) == snapshot("""\
Error (validation_error): There is no file type `python3`.

Suggestion: Types are names such as `py`, `js`, `ts`, `rust`, `go` and `md`. Or use `glob`: `*.python3`.\
""")
    assert words(grep, root, {"pattern": "a\0b"}) == snapshot("""\
Error (validation_error): The arguments of `Grep` have 1 problem:
- `pattern`: it contains a NUL byte; to search for one, write \\x00

Suggestion: Call `Grep` again with {"pattern": string, "path": string (optional, default "."), "glob": string | null (optional, default null), "type": string | null (optional, default null), "output_mode": "content" | "files_with_matches" | "count" (optional, default "files_with_matches"), "-A": integer (optional, default 0), "-B": integer (optional, default 0), "-C": integer (optional, default 0), "-i": boolean (optional, default false), "-n": boolean (optional, default true), "multiline": boolean (optional, default false), "head_limit": integer (optional, default 200)}.\
""")
    assert words(grep, root, {"pattern": "x", "-C": -1}) == snapshot("""\
Error (validation_error): The arguments of `Grep` have 1 problem:
- `-C`: must be at least 0; got integer -1

Suggestion: Call `Grep` again with {"pattern": string, "path": string (optional, default "."), "glob": string | null (optional, default null), "type": string | null (optional, default null), "output_mode": "content" | "files_with_matches" | "count" (optional, default "files_with_matches"), "-A": integer (optional, default 0), "-B": integer (optional, default 0), "-C": integer (optional, default 0), "-i": boolean (optional, default false), "-n": boolean (optional, default true), "multiline": boolean (optional, default false), "head_limit": integer (optional, default 200)}.\
""")
    assert not ask(grep, root, {"pattern": "x" * 10_001}).success


@pytest.mark.parametrize("glob", ["--pre=/bin/sh", "-g*", "!--pre=x", "--ignore-file=/etc/passwd", "-f /etc/passwd"])
def test_a_glob_is_never_an_option(glob: str, tmp_path: Path) -> None:
    (tmp_path / glob.removeprefix("!").replace("/", "_").replace("*", "_")).write_text("needle\n")
    assert ask(grep, tmp_path, {"pattern": "needle", "glob": glob}).success
    assert ask(grep, tmp_path, {"pattern": glob}).success


def test_odd_names_stay_on_one_line(tmp_path: Path) -> None:
    for name in (b"a b", b"new\n\nline", b"caf\xe9", b"--pre", "é".encode(), b"a:1:b"):
        (tmp_path / os.fsdecode(name)).write_text("needle\n")
    assert words(grep, tmp_path, {"pattern": "needle", "output_mode": "content"}) == snapshot("""\
Found 6 matching lines in 6 files.
--pre:1:needle
a b:1:needle
a:1:b:1:needle
caf�:1:needle
"new\\n\\nline":1:needle
é:1:needle
[1 name is not UTF-8: � stands for the bytes that cannot be shown.]\
""")


def test_links_out_are_not_read(tmp_path: Path) -> None:
    secret, root = tmp_path / "secret", tmp_path / "ws"
    secret.mkdir()
    (secret / "s.txt").write_text("needle\n")
    root.mkdir()
    (root / "dir").symlink_to(secret)
    (root / "file").symlink_to(secret / "s.txt")
    assert ask(grep, root, {"pattern": "needle"}).data["total_files"] == 0
    for path in ("dir", "file", "dir/s.txt", str(secret)):
        result = ask(grep, root, {"pattern": "needle", "path": path})
        assert result.error is not None
        assert result.error.kind == "permission_error"


@pytest.mark.skipif(kernel_version() < 1, reason="only the kernel can hold ripgrep inside")
def test_a_link_swapped_during_the_search_leads_nowhere(tmp_path: Path) -> None:
    secret, root = tmp_path / "secret", tmp_path / "ws"
    for folder in (secret, root / "real"):
        folder.mkdir(parents=True)
        for number in range(20):
            (folder / f"{number}.txt").write_text("needle secret\n" if folder == secret else "needle\n")
    (root / "link").symlink_to(secret)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for source in ("real", "link"):
                (root / source).rename(root / "target")
                stop.wait(0.002)
                (root / "target").rename(root / source)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for path in (".", "target", "target") * 12:
            result = ask(grep, root, {"pattern": "needle", "path": path, "output_mode": "content"})
            assert "secret" not in (result.llm_content if result.success else "")
    finally:
        stop.set()
        swapper.join()


def test_results_come_before_the_end_and_in_the_same_form(tmp_path: Path) -> None:
    root = plant(tmp_path)
    runtime = Runtime([grep], session=Session(workspace=root))

    async def main() -> list[str]:
        call = RawCall("Grep", {"pattern": "needle", "output_mode": "content"})
        return [str(event.content) async for event in runtime.stream(call) if isinstance(event, PartialOutput)]

    shown = "\n".join(asyncio.run(main())).splitlines()
    assert sorted(shown) == sorted(words(grep, root, {"pattern": "needle", "output_mode": "content"}).splitlines()[1:])


def test_cancelling_leaves_no_process(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for number in range(50):
        (tmp_path / f"{number}.txt").write_text("ab" * 200_000)

    async def main() -> None:
        runtime = Runtime([grep], session=Session(workspace=tmp_path))
        call = RawCall("Grep", {"pattern": r"(a|b|ab)*(?=c)(a|b|ab)*\1x"})
        task = asyncio.create_task(runtime.run(call))
        while not children():
            await asyncio.sleep(0.001)
        assert runtime.cancel(call.id)
        result = await task
        assert result.error is not None
        assert result.error.kind == "cancelled_error"
        assert children() == set()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_pattern_that_never_ends_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join("a" * 60 + "!" for _ in range(2000)))
    began = monotonic()
    runtime = Runtime([grep], session=Session(workspace=tmp_path))
    result = asyncio.run(runtime.run("Grep", {"pattern": r"^(?=(a+)+$)(a|aa)+$"}, timeout=2))
    assert monotonic() - began < 60
    assert children() == set()
    assert "too many ways to match" in result.llm_content or result.error is not None


def test_files_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "a.txt").write_text("needle\n")
    (tmp_path / "closed").write_text("needle\n")
    (tmp_path / "closed").chmod(0)
    assert "1 place could not be read" in words(grep, tmp_path, {"pattern": "needle"})


def test_a_binary_file_asked_for_by_name(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"needle\0needle\n")
    assert words(grep, tmp_path, {"pattern": "needle", "output_mode": "content", "path": "bin"}) == snapshot("""\
No match for `needle` in `bin`.
[1 binary file with a match was skipped.]
[Possible next steps: set `-i` to true to ignore case; search a wider `path`.]\
""")


def test_a_folder_added_to_the_workspace_is_named_in_full(tmp_path: Path) -> None:
    added, root = tmp_path / "added", tmp_path / "ws"
    added.mkdir()
    root.mkdir()
    (added / "x.txt").write_text("needle\n")
    result = ask(grep, root, {"pattern": "needle", "path": str(added)}, environment=Environment(roots=[str(added)]))
    assert result.data["files"] == [{"path": f"{added}/x.txt", "count": None, "lines": []}]


def test_much_is_cut_and_said(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}.txt").write_text(("needle " + "x" * 400 + "\n") * 10)
    data = ask(grep, tmp_path, {"pattern": "needle", "output_mode": "content", "head_limit": 0}).data
    shown = sum(len(file["lines"]) for file in data["files"])
    assert data["total_matches"] == 3000
    assert shown < 300
    assert data["notes"] == [
        f"{3000 - shown:,} of 3,000 matching lines left out. Narrow with `path`, `glob` or `type`."
    ]
    assert [file["path"] for file in data["files"]] == [f"{number:03}.txt" for number in range(len(data["files"]))]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = ask(grep, tmp_path, {"pattern": "x", "path": "pipe"})
    assert result.error is not None
    assert "not opened" in result.error.message


def test_the_end_of_a_line_is_found_whatever_ends_it(tmp_path: Path) -> None:
    (tmp_path / "dos.txt").write_bytes(b"needle\r\nneedle more\r\n")
    (tmp_path / "unix.txt").write_bytes(b"needle\nneedle more\n")
    found = ask(grep, tmp_path, {"pattern": "needle$", "output_mode": "content"}).llm_content
    assert "dos.txt:1:needle\n" in found
    assert "unix.txt:1:needle" in found
    assert "dos.txt" in ask(grep, tmp_path, {"pattern": r"needle\r$"}).llm_content
    assert "unix.txt" not in ask(grep, tmp_path, {"pattern": r"needle\r$"}).llm_content


def test_a_line_break_in_a_pattern_fits_every_line_ending(tmp_path: Path) -> None:
    (tmp_path / "dos.txt").write_bytes(b"one\r\ntwo\r\n\r\n\r\nthree\r\n")
    (tmp_path / "unix.txt").write_bytes(b"one\ntwo\n\n\nthree\n")
    for pattern in (r"one\ntwo", "one\ntwo", r"one$\ntwo", r"two\n{3}three"):
        found = ask(grep, tmp_path, {"pattern": pattern, "multiline": True}).llm_content
        assert found.splitlines()[:3] == ["Found 2 files with a match.", "dos.txt", "unix.txt"], pattern
    exact = ask(grep, tmp_path, {"pattern": r"one\r\ntwo", "multiline": True}).llm_content
    assert "unix.txt" not in exact


def test_ignoring_case_is_not_advised_where_there_is_none(tmp_path: Path) -> None:
    assert "-i" not in ask(grep, tmp_path, {"pattern": "结束$"}).llm_content


def test_lines_of_old_encodings_are_shown_as_read_shows_them(tmp_path: Path) -> None:
    gbk = "# 这个函数返回用户的名字，如果没有就返回空。needle\n" * 3
    (tmp_path / "gbk.py").write_bytes(gbk.encode("gb18030"))
    (tmp_path / "latin.txt").write_bytes("Größe für später: needle\n".encode("cp1252"))
    assert ask(
        grep, tmp_path, {"pattern": "needle", "output_mode": "content", "head_limit": 2}
    ).llm_content == snapshot("""\
Found 4 matching lines in 2 files.
gbk.py:1:# 这个函数返回用户的名字，如果没有就返回空。needle
gbk.py:2:# 这个函数返回用户的名字，如果没有就返回空。needle
[2 of 4 matching lines left out. Narrow with `path`, `glob` or `type`, or raise `head_limit`.]\
""")
    assert "latin.txt:1:Größe für später: needle" in (
        ask(grep, tmp_path, {"pattern": "needle", "path": "latin.txt", "output_mode": "content"}).llm_content
    )


def test_in_a_large_tree_older_encodings_are_looked_at_when_nothing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_SOON", 0.0)
    (tmp_path / "gbk.py").write_bytes("# 这个函数返回用户的名字，如果没有就返回空。\n".encode("gb18030"))
    (tmp_path / "utf8.py").write_text("# 函数\n")
    assert ask(grep, tmp_path, {"pattern": "函数"}).llm_content == snapshot("""\
Found 1 file with a match.
utf8.py
[Only UTF-8 was searched: to look for older encodings as well takes long here. Narrow with `path`.]\
""")
    assert ask(grep, tmp_path, {"pattern": "返回"}).llm_content == snapshot("""\
Found 1 file with a match.
gbk.py\
""")


@pytest.mark.usefixtures("small")
def test_letters_beyond_ascii_are_found_in_older_encodings_too(tmp_path: Path) -> None:
    chinese = "# 这个函数返回用户的名字，如果没有就返回空。\nneedle = '错误'\n"
    (tmp_path / "src").mkdir()
    (tmp_path / "src/gbk.py").write_bytes(chinese.encode("gb18030"))
    (tmp_path / "src/utf8.py").write_text(chinese)
    (tmp_path / "wide.py").write_bytes(chinese.encode("utf-16"))
    (tmp_path / "latin.txt").write_bytes("Größe für später\n".encode("cp1252"))
    (tmp_path / "japanese.txt").write_bytes("これは日本語の文書です。エラーが出ました。\n".encode("cp932"))
    (tmp_path / "russian.txt").write_bytes("Это ошибка в программе, которую надо исправить.\n".encode("cp1251"))
    (tmp_path / "plain.txt").write_text("needle\n")
    assert ask(grep, tmp_path, {"pattern": "错误|needle", "output_mode": "content"}).llm_content == snapshot("""\
Found 4 matching lines in 4 files.
plain.txt:1:needle
src/gbk.py:2:needle = '错误'
src/utf8.py:2:needle = '错误'
wide.py:2:needle = '错误'\
""")
    assert ask(grep, tmp_path, {"pattern": "返回.*名字", "output_mode": "count"}).llm_content == snapshot("""\
Found 3 matching lines in 3 files.
src/gbk.py:1
src/utf8.py:1
wide.py:1\
""")
    found = {
        word: ask(grep, tmp_path, {"pattern": word}).llm_content.splitlines()[1:]
        for word in ("später", "日本語", "ошибка", r"\p{Cyrillic}")
    }
    assert found == snapshot(
        {
            "später": ["latin.txt"],
            "日本語": ["japanese.txt"],
            "ошибка": ["russian.txt"],
            "\\p{Cyrillic}": ["russian.txt"],
        }
    )
    assert ask(grep, tmp_path, {"pattern": "größe", "-i": True, "path": "latin.txt"}).data["total_files"] == 1


@pytest.mark.usefixtures("small")
def test_files_in_older_encodings_are_left_out_as_others_are(tmp_path: Path) -> None:
    chinese = "# 这个函数返回用户的名字，如果没有就返回空。\n".encode("gb18030")
    for name in ("a.py", "b.txt", "ignored.log", "node_modules/m.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(chinese)
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert [one["path"] for one in ask(grep, tmp_path, {"pattern": "函数"}).data["files"]] == ["a.py", "b.txt"]
    assert [one["path"] for one in ask(grep, tmp_path, {"pattern": "函数", "glob": "*.py"}).data["files"]] == ["a.py"]
    assert [one["path"] for one in ask(grep, tmp_path, {"pattern": "函数", "type": "py"}).data["files"]] == ["a.py"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "deny", ["Read(secret.txt)", "Read(*secret*)", "Read(./hidden/**)", "Read(hidden)", "Read(//**)"]
)
def test_what_may_not_be_read_is_not_found_in_older_encodings_either(tmp_path: Path, deny: str) -> None:
    """S1: one policy, however a file is written; the files that are denied are not even counted by their encoding."""
    (tmp_path / "hidden").mkdir()
    for name in ("hidden/secret.txt", "open.txt", "hidden/.env"):
        (tmp_path / name).write_bytes("这个函数返回用户的名字，如果没有就返回空。\n".encode("gb18030"))
    (tmp_path / "hidden/unclear-secret.txt").write_bytes(b"some words \xc3\xff\xfe\x81\x9d and more\n")
    restrictions = RuleRestrictions(RulePolicy(deny=[deny]))
    found = ask(grep, tmp_path, {"pattern": "名字"}, restrictions=restrictions)
    named = [one["path"] for one in found.data["files"]]
    assert not [name for name in named if "secret.txt" in name and "hidden" in name]
    assert named == ([] if deny == "Read(//**)" else ["open.txt"])
    unclear = [note for note in found.data["notes"] if "not clear" in note]
    assert bool(unclear) == (deny == "Read(secret.txt)"), "only there the other file may be read"


@pytest.mark.usefixtures("small")
def test_files_of_which_nobody_knows_the_encoding_are_counted_also_beside_a_match(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("错误\n")
    (tmp_path / "b.txt").write_bytes(b"some words \xc3\xff\xfe\x81\x9d and more\n")
    assert ask(grep, tmp_path, {"pattern": "错误"}).llm_content == snapshot("""\
Found 1 file with a match.
a.txt
[1 file is not in UTF-8, and in what else is not clear: only ASCII is found there.]\
""")
    assert ask(grep, tmp_path, {"pattern": "Größe", "-i": True}).llm_content == snapshot("""\
No match for `Größe` in `.`.
[1 file is not in UTF-8, and in what else is not clear: only ASCII is found there.]
[Files in UTF-16 are searched where they begin with a byte order mark, and are binary otherwise.]\
""")
    assert ask(grep, tmp_path, {"pattern": "absent"}).data["notes"] == snapshot(
        ["Possible next steps: set `-i` to true to ignore case."]
    )
