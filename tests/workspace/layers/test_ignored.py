"""What counts as build output and caches, and what can never hide there."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workspace.layers.overlay import new_layer, put, run_above, told, tried

from ferrule.workspace.git import UnreadableIndex, index_of, parse_index
from ferrule.workspace.ignore_files import IgnoredPaths
from ferrule.workspace.layers.reading import read_layers
from ferrule.workspace.paths import Paths

TAG = "Signature: 8a477f597d28d172789f06886806bc55"
NO_SETTINGS = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(root: Path, *arguments: str, given: bytes = b"") -> bytes:
    command = ["git", "-C", root, "-c", "user.name=n", "-c", "user.email=e", *arguments]
    ran = subprocess.run(command, input=given, capture_output=True, check=False, env=NO_SETTINGS)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


@pytest.fixture
def repository(root: Path) -> Path:
    git(root, "init", "-q")
    return root


# Reading ignore files as git does

PIECES = st.sampled_from(
    ["*", "**", "/", "a", "b", "c", "?", "[ab]", "[!a]", "\\*", "[a-c]", "!", "é", "{", "}", ".", " ", "[[:alpha:]]",
     "#", "[]a]", "[^b]", "\\ ", "[", "\\"]
)  # fmt: skip
LINES = st.lists(st.lists(PIECES, min_size=1, max_size=5).map("".join), min_size=1, max_size=3)
NAMES = st.lists(st.sampled_from(["a", "b", "c", "ab", "é", "{a}", "a.b", "*", "d a", "!"]), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(NAMES, min_size=1, max_size=10), LINES, LINES, LINES)
def test_git_says_the_same(files: list[list[str]], top: list[str], inner: list[str], exclude: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        git(root, "init", "-q")
        for parts in files:
            path = root.joinpath(*parts)
            if not any(one.is_file() for one in path.parents) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        (root / ".gitignore").write_text("\n".join(top))
        (root / ".git" / "info" / "exclude").write_text("\n".join(exclude))
        if (root / "a").is_dir():
            (root / "a" / ".gitignore").write_text("\n".join(inner))
        paths = [str(one.relative_to(root)) for one in root.rglob("*") if ".git" not in one.relative_to(root).parts]
        listed = git(root, "check-ignore", "--no-index", "-z", "--stdin", given="\0".join(paths).encode())
        ignored = IgnoredPaths(root)

        def left_out(path: str) -> bool:
            parts = path.split("/")
            upward = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
            return any(ignored.ignores(one, folder=(root / one).is_dir()) for one in upward)

        assert {os.fsencode(path) for path in paths if left_out(path)} == set(listed.split(b"\0")) - {b""}


def test_a_hostile_pattern_takes_no_time(root: Path) -> None:
    put(root, {".gitignore": "*a" * 60 + "b\n" + "**/" * 2000 + "x\n" + "[" * 5000 + "\n"})
    assert not IgnoredPaths(root).ignores("a" * 250, folder=False)


def test_a_repository_around_the_workspace_counts(repository: Path) -> None:
    put(repository, {".gitignore": "/inner/out\n*.log\n", "inner/a": "1", "inner/b.log": "2"})
    git(repository, "add", "-f", "inner/b.log")
    ignored = IgnoredPaths(repository / "inner")
    assert [ignored.ignores(name, folder=False) for name in ("out", "x.log", "a")] == [True, True, False]
    assert [ignored.tracks(name) for name in ("b.log", "a")] == [True, False]


# Reading the index


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_an_index_of_every_form_is_read(tmp_path: Path, version: str, form: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={form}")
    put(tmp_path, {f"d{number % 7}/f{number}" + "x" * (number * 3): f"{number}" for number in range(80)})
    git(tmp_path, "add", ".")
    git(tmp_path, "update-index", "--index-version", version)
    index = index_of(str(tmp_path))
    assert index.whole
    assert list(index.names) == sorted(git(tmp_path, "ls-files", "-z").split(b"\0"))[1:]
    assert index.names_content(b"d0/f0", iter([b"0"]), 1, link=False)
    assert not index.names_content(b"d0/f0", iter([b"1"]), 1, link=False)


def test_an_index_that_is_not_understood_may_track_everything(repository: Path) -> None:
    put(repository, {"a": "1"})
    git(repository, "add", ".")
    git(repository, "update-index", "--split-index")
    index = index_of(str(repository))
    assert (index.whole, index.tracks(b"anything")) == (False, True)
    for data in (b"", b"DIRC", b"DIRC" + b"\xff" * 400, b"x" * 100):
        with pytest.raises(UnreadableIndex):
            parse_index(data)


# Sorting a layer


def test_what_git_ignores_is_apart_and_so_are_the_folders_made_for_it(repository: Path) -> None:
    put(repository, {".gitignore": "build/\n*.o\n", "src/a.c": "1"})
    found = tried(
        repository,
        "mkdir -p build/x obj e src/__pycache__; touch build/x/y obj/a.o src/b.o src/new.c src/__pycache__/m.pyc",
    )
    assert told(found.changes) == ["+e", "+src/new.c"]
    assert told(found.ignored) == [
        "+build", "+build/x", "+build/x/y", "+obj", "+obj/a.o", "+src/__pycache__", "+src/__pycache__/m.pyc", "+src/b.o"
    ]  # fmt: skip


def test_a_hidden_folder_with_nothing_in_it_is_no_change(root: Path) -> None:
    found = tried(root, "mkdir .benchmarks .vscode plain; mkdir -p .used; touch .used/file")
    assert told(found.changes) == ["+.used", "+.used/file", "+.vscode", "+plain"]
    assert told(found.ignored) == ["+.benchmarks"]


def test_a_command_cannot_hide_its_changes_with_a_gitignore_of_its_own(repository: Path) -> None:
    put(repository, {"src/a.c": "1"})
    script = f"""
        for place in . src; do echo '*' > $place/.gitignore; done
        echo '*' >> .git/info/exclude; echo '{TAG}' > src/CACHEDIR.TAG
        echo 2 > src/a.c; touch src/x
    """
    found = tried(repository, script)
    assert told(found.changes) == [
        "~.git/info/exclude",
        "+.gitignore",
        "+src/.gitignore",
        "+src/CACHEDIR.TAG",
        "~src/a.c",
        "+src/x",
    ]


@pytest.mark.parametrize("mark", ["echo '*' > .cache/.gitignore", f"echo '{TAG}' > .cache/CACHEDIR.TAG"])
def test_a_new_folder_may_call_itself_a_cache(root: Path, mark: str) -> None:
    found = tried(root, f"mkdir .cache; {mark}; touch .cache/x")
    assert found.changes == []
    assert len(found.ignored) == 3


def test_the_second_run_sees_the_cache_of_the_first(root: Path) -> None:
    first = new_layer(root)
    run_above(first, "mkdir .cache; echo '*' > .cache/.gitignore; touch .cache/x")
    second = new_layer(root, below=(first.upper,))
    run_above(second, "echo 1 > .cache/x; touch .cache/y")
    found = read_layers(Paths([root]), [second])
    assert (told(found.changes), told(found.ignored)) == ([], ["+.cache", "+.cache/x", "+.cache/y"])


def test_a_folder_that_the_workspace_tags_is_a_cache(root: Path) -> None:
    put(root, {"c/CACHEDIR.TAG": TAG, "c/a": "1"})
    found = tried(root, "echo 2 > c/a; rm c/CACHEDIR.TAG")
    assert (told(found.changes), told(found.ignored)) == ([], ["-c/CACHEDIR.TAG", "~c/a"])


def test_what_git_tracks_is_never_ignored(repository: Path) -> None:
    put(repository, {".gitignore": "build/\n", "build/kept": "1", "build/other": "2"})
    git(repository, "add", "-f", "build/kept")
    found = tried(repository, "echo 2 > build/kept; echo 3 > build/other")
    assert (told(found.changes), told(found.ignored)) == (["~build/kept"], ["~build/other"])
    assert told(tried(repository, "rm -r build").changes) == ["-build", "-build/kept", "-build/other"]


def test_guarded_places_are_never_ignored(repository: Path) -> None:
    put(repository, {".gitignore": "*\n"})
    found = tried(
        repository, "mkdir -p a/.vscode; touch a/.vscode/tasks.json .envrc x; mkdir .husky; touch .husky/pre-push"
    )
    assert told(found.changes) == [
        "+.envrc",
        "+.husky",
        "+.husky/pre-push",
        "+a",
        "+a/.vscode",
        "+a/.vscode/tasks.json",
    ]
    assert told(found.ignored) == ["+x"]


def test_a_repository_within_another_has_its_own_say(repository: Path) -> None:
    put(repository, {".gitignore": "vendor/\n", "vendor/lib/a.c": "1", "vendor/lib/.gitignore": "*.o\n"})
    git(repository / "vendor" / "lib", "init", "-q")
    git(repository / "vendor" / "lib", "add", ".")
    found = tried(repository, "echo 2 > vendor/lib/a.c; touch vendor/lib/a.o vendor/x")
    assert (told(found.changes), told(found.ignored)) == (["~vendor/lib/a.c"], ["+vendor/lib/a.o", "+vendor/x"])


def test_git_refreshing_its_index_is_noise_and_staging_is_not(repository: Path) -> None:
    put(repository, {"a": "1", "b": "2"})
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "m")
    os.utime(repository / "a", (1, 1))
    looked = tried(repository, "git status >&2")
    assert (told(looked.changes), looked.noise) == ([], 1)
    staged = tried(repository, "git rm -q --cached a")
    assert told(staged.changes) == ["~.git/index"]
    assert told(tried(repository, "git update-index --assume-unchanged a").changes) == ["~.git/index"]
