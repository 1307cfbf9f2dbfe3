"""What a layer would change, as the user is asked about it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.workspace.layers.overlay import put, tried

from ferrule import RulePolicy
from ferrule.core.call import Effects
from ferrule.policy.restrictions import RuleRestrictions
from ferrule.workspace.layers import effects as telling
from ferrule.workspace.layers.effects import effects_of
from ferrule.workspace.paths import Paths


def effects(root: Path, command: str, paths: Paths | None = None, most_diff: int = 50_000) -> Effects:
    return effects_of(paths or Paths([root]), tried(root, command, paths).changes, most_diff=most_diff)


def commit(root: Path) -> None:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "m"]):
        command = ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments]
        subprocess.run(command, cwd=root, check=True, env=env)


def test_s2_what_everyone_may_write_from_then_on_is_told(root: Path) -> None:
    put(root, {"a": "a\n", "b": "b\n", "open": "o\n", "run.sh": "#!\n"})
    (root / "open").chmod(0o666)
    told = effects(
        root,
        "chmod o+w a; chmod 755 run.sh; chmod 4755 b; chmod 644 open; umask 0; echo > new; mkdir d; "
        "echo > tool; chmod 777 tool",
    )
    assert {one.shown for one in told.files if one.opens} == {"a", "b", "tool"}


def test_each_path_has_a_line_and_texts_have_a_diff(root: Path) -> None:
    put(root, {"a.py": "one\ntwo\nthree\n", "old.txt": "gone\n", "moved": "a rather long content\n", "run.sh": "#!\n"})
    (root / "link").symlink_to("a.py")
    told = effects(
        root,
        "sed -i s/two/2/ a.py; rm old.txt; mkdir d; mv moved d/moved; chmod 755 run.sh; ln -sfn d link; mkdir empty; "
        "printf '\\0\\1' > bin; echo > tool; chmod 755 tool; ln tool tool2; mkfifo p; chmod 700 d",
    )
    assert told.lines() == snapshot(
        [
            "delete old.txt (+0 -1)",
            "rename d/moved (from moved)",
            "change the permissions of run.sh (0644 -> 0755)",
            "change link (+1 -1) (-> d)",
            "change a.py (+1 -1)",
            "create p (a pipe: cannot be kept)",
            "create bin (binary, 2 bytes)",
            "create empty/",
            "create tool (+1 -0) (0755)",
            "create tool2 (+1 -0) (0755, a copy of tool, not a hard link)",
        ]
    )
    assert told.diff == snapshot("""\
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
rename from moved
rename to d/moved
run.sh
old mode 644
new mode 755
--- a/link
+++ b/link
@@ -1 +1 @@
-a.py
\\ No newline at end of file
+d
\\ No newline at end of file
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 one
-two
+2
 three
--- /dev/null
+++ b/tool
@@ -0,0 +1 @@
+
--- /dev/null
+++ b/tool2
@@ -0,0 +1 @@
+
""")
    assert told.left_out == 0


def test_every_encoding_is_shown_as_text(root: Path) -> None:
    (root / "gbk.txt").write_bytes("第一行\n第二行文字\n".encode("gbk"))
    (root / "wide.txt").write_bytes("häßlich\n".encode("utf-16"))
    told = effects(root, "sed -i 1d gbk.txt; echo ok > wide.txt")
    assert told.diff == snapshot("""\
--- a/gbk.txt
+++ b/gbk.txt
@@ -1,2 +1 @@
-第一行
 第二行文字
encoding: utf-16-le with byte order mark -> utf-8
--- a/wide.txt
+++ b/wide.txt
@@ -1 +1 @@
-häßlich
+ok
""")


def test_a_name_that_cannot_be_shown_does_not_break_the_line(root: Path) -> None:
    told = effects(root, r"""touch $'a\nb' $'\xff'""")
    assert told.lines() == snapshot(['create "a\\nb"', "create �"])
    assert "".join(one.shown for one in told.files).encode()


def test_a_secret_is_named_and_its_content_is_not_shown(root: Path) -> None:
    paths = Paths([root], restrictions=RuleRestrictions(RulePolicy()))
    put(root, {".env": "TOKEN=abc\n", ".gitignore": ".env*\n"})
    told = effects(root, "echo TOKEN=new > .env; echo SECRET > .env.local; rm -f x", paths)
    assert told.lines() == snapshot(
        ["change .env (its content is not shown)", "create .env.local (its content is not shown)"]
    )
    assert told.diff == ""


def test_git_holds_what_is_committed_or_staged_and_not_what_was_changed_since(root: Path) -> None:
    put(
        root,
        {"kept": "1\n", "edited": "2\n", "removed": "3\n", "rewritten": "4\n", "d/__pycache__/m.pyc": "c", "d/e": "5"},
    )
    (root / "link").symlink_to("kept")
    put(root, {".gitignore": "__pycache__\n"})
    commit(root)
    put(root, {"edited": "not committed\n", "new": "6\n"})
    told = effects(root, "rm kept edited new link; echo > rewritten; chmod 600 removed; rm -r d; touch made")
    assert {one.shown: one.recoverable for one in told.files} == {
        "d/__pycache__/m.pyc": True,
        "d/e": True,
        "edited": False,
        "kept": True,
        "link": True,
        "made": True,
        "new": False,
        "removed": True,
        "rewritten": True,
    }
    assert told.counts == {"delete": 6, "change": 1, "mode": 1, "create": 1}


def git(root: Path, *words: str, given: bytes = b"") -> str:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    ran = subprocess.run(["git", *words], cwd=root, check=True, env=env, input=given, capture_output=True)
    return ran.stdout.decode().strip()


def test_what_the_index_only_names_is_not_held(root: Path) -> None:
    """`git update-index --cacheinfo` says what nobody stored; a damaged object is none either."""
    put(root, {"kept": "1\n", "named": "2\n", "damaged": "3\n"})
    commit(root)
    put(root, {"named": "changed\n", "new": "4\n"})
    for name in ("named", "new"):
        digest = git(root, "hash-object", name)
        git(root, "update-index", "--add", "--cacheinfo", f"100644,{digest},{name}")
    digest = git(root, "hash-object", "damaged")
    loose = root / ".git/objects" / digest[:2] / digest[2:]
    loose.chmod(0o644)
    loose.write_bytes(loose.read_bytes()[:-4])
    told = effects(root, "rm kept named new damaged")
    assert {one.shown: one.recoverable for one in told.files} == {
        "kept": True,
        "named": False,
        "new": False,
        "damaged": False,
    }


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_what_is_packed_borrowed_or_of_a_worktree_is_held(root: Path, tmp_path: Path, form: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "-q", f"--object-format={form}")
    put(source, {f"f{number}": f"{number}\n" for number in range(300)})
    commit(source)
    git(source, "gc", "-q", "--prune=now")
    assert not list((source / ".git/objects").glob("??/*"))
    names = " ".join(f"f{number}" for number in range(300))
    assert all(one.recoverable for one in effects(source, f"rm {names}").files)
    git(tmp_path, "clone", "-q", "--shared", "source", "borrowed")
    assert all(one.recoverable for one in effects(tmp_path / "borrowed", f"rm {names}").files)
    git(source, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert all(one.recoverable for one in effects(tmp_path / "tree", f"rm {names}").files)
    put(tmp_path / "tree", {"f7": "changed\n"})
    assert [one.recoverable for one in effects(tmp_path / "tree", "rm f7 f8").files] == [False, True]


def test_without_git_nothing_that_goes_is_recoverable(root: Path) -> None:
    put(root, {"a": "1"})
    assert [one.recoverable for one in effects(root, "rm a").files] == [False]


def test_a_moved_tree_is_renames_and_not_removed_and_made(root: Path) -> None:
    put(root, {f"old/{name}": f"the content of {name}\n" for name in ("a", "b", "c/d")})
    told = effects(root, "cp -r old new; rm -r old")
    assert told.lines() == snapshot(
        ["rename new/a (from old/a)", "rename new/b (from old/b)", "rename new/c/d (from old/c/d)"]
    )


def test_the_diff_is_bounded_and_says_how_many_files_are_not_in_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = effects(root, "for i in {10..40}; do seq 20 > $i; done; head -c 2000000 /dev/zero > big", most_diff=500)
    assert len(told.diff) <= 500
    assert (len(told.files), told.left_out) == (32, 32 - told.diff.count("+++"))
    assert "create big (2,000,000 bytes)" in told.lines(40)
    monkeypatch.setattr(telling, "_MOST_COMPARED", 100)
    assert effects(root, "seq 100 > a; seq 200 > b").left_out == 2
