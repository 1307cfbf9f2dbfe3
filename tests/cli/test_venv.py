"""`./run` and `./test`: a clone runs its own code wherever it lies, and says in a line why it cannot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]

# Stands for Python: makes a .venv whose `pip` installs a `ferrule` that says from where it was installed.
PYTHON = r"""#!/usr/bin/env bash
case "$*" in
  --version) echo "Python 3.11.0" ;;
  "-m venv --clear "*)
    rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python"
    printf '#!%s/bin/python\n' "$4" >"$4/bin/pip" ;;
  "-c import fcntl"*) exec REAL "$@" ;;
  "-m pip install "*)
    for last; do :; done
    printf '#!/bin/sh\necho "code of %s" "$@"\n' "${last%%\[*}" >"$(dirname "$0")/ferrule"
    chmod +x "$(dirname "$0")/ferrule"
    for tool in ruff pyright lint-imports; do
      to="$(dirname "$0")/$tool"
      printf '#!/bin/sh\necho "did %s $1"; [ "$1" != format ] && [ %s != pyright ]\n' $tool $tool >"$to"
      chmod +x "$to"
    done ;;
  "-m pytest"*) echo "did pytest$(printf ' <%s>' "$@")" ;;
esac
""".replace("REAL", sys.executable)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone"
    (folder / "scripts").mkdir(parents=True)
    for name in ("run", "test", "pyproject.toml", "scripts/venv.sh"):
        shutil.copy(ROOT / name, folder / name)
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return folder


def start(
    program: Path, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    python = next(folder for folder in program.parents if (folder / "python").is_file()) / "python"
    given = {**os.environ, "FERRULE_PYTHON": str(python), **(environment or {})}
    given.pop("PYTHONPATH", None)
    return subprocess.run(
        [str(program), *arguments], env=given, capture_output=True, text=True, timeout=600, check=False
    )


def test_the_first_run_installs_and_the_next_does_not(clone: Path) -> None:
    first = start(clone / "run", "tools")
    assert first.stdout == f"code of {clone} tools\n"
    assert "Making .venv" in first.stderr
    assert start(clone / "run", "tools").stderr == ""


def test_commands_that_start_together_install_once(clone: Path) -> None:
    """O6: the four lines of the README, in a clone that nothing was run in."""
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda word: start(clone / "run", word), ("remote", "worker", "other", "call")))
    assert [one.stdout for one in done] == [
        f"code of {clone} {word}\n" for word in ("remote", "worker", "other", "call")
    ]
    assert sorted(one.stderr.count("Making .venv") for one in done) == [0, 0, 0, 1]
    assert sorted(one.stderr.count("Installing") for one in done) == [0, 0, 0, 1]


@pytest.mark.parametrize(
    "arguments",
    [("run", "--model", "local", "hi"), ("chat", "--model=local/smollm2-135m"), ("--model", "local/a.gguf")],
)
def test_a_model_on_this_machine_is_installed_when_it_is_asked_for(clone: Path, arguments: tuple[str, ...]) -> None:
    start(clone / "run", "tools")
    assert start(clone / "run", *arguments).stderr == "Installing Ferrule (local) …\n"
    assert start(clone / "run", *arguments).stderr == ""


@pytest.mark.parametrize("arguments", [("run", "what is local"), ("run", "local"), ("--model", "ollama/local")])
def test_a_word_of_a_request_installs_nothing(clone: Path, arguments: tuple[str, ...]) -> None:
    start(clone / "run", "tools")
    assert start(clone / "run", *arguments).stderr == ""


@pytest.mark.parametrize("keep", [True, False], ids=["copied", "moved"])
def test_a_clone_elsewhere_runs_its_own_code(clone: Path, keep: bool) -> None:
    start(clone / "run")
    other = clone.with_name("other")
    if keep:
        shutil.copytree(clone, other, symlinks=True)
    else:
        clone.rename(other)
    done = start(other / "run", "tools")
    assert done.stdout == f"code of {other} tools\n"
    assert "Making .venv" in done.stderr


def test_a_venv_whose_python_does_not_run_is_made_anew(clone: Path) -> None:
    start(clone / "run")
    (clone / ".venv" / "bin" / "python").write_text("#!/no/such/python\n")
    assert start(clone / "run").stdout.strip() == f"code of {clone}"


def test_a_symbolic_link_starts_the_clone_it_points_to(clone: Path) -> None:
    (clone.parent / "bin").mkdir()
    link = clone.parent / "bin" / "ferrule-run"
    link.symlink_to(Path("..") / clone.name / "run")
    again = clone.parent / "again"
    again.symlink_to(link)
    assert start(again, "x").stdout == f"code of {clone} x\n"


def test_a_venv_that_is_linked_here_is_left_as_it_is(clone: Path) -> None:
    start(clone / "run")
    other = clone.with_name("other")
    shutil.copytree(clone, other, ignore=shutil.ignore_patterns(".venv"))
    (other / ".venv").symlink_to(clone / ".venv")
    before = (clone / ".venv" / ".ferrule-all").read_text()
    assert start(other / "run").returncode == 0
    assert (clone / ".venv" / ".ferrule-all").read_text() == before
    assert (other / ".venv").is_symlink()


@pytest.mark.parametrize("with_venv", [False, True])
def test_a_clone_that_may_not_be_written_says_so(clone: Path, with_venv: bool) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    if with_venv:
        start(clone / "run")
        (clone / ".venv" / "bin" / "python").write_text("#!/no/such/python\n")
    clone.chmod(0o555)
    try:
        done = start(clone / "run")
    finally:
        clone.chmod(0o755)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Clone Ferrule into a folder of your own" in done.stderr
    assert "python3-venv" not in done.stderr


def test_every_check_runs_and_those_that_failed_are_named_at_the_end(clone: Path) -> None:
    done = start(clone / "test")
    assert done.returncode == 1
    for said in ("did ruff format", "did ruff check", "did pyright", "did lint-imports", "did pytest"):
        assert said in done.stdout
    assert re.search(r"\nFailed after \d+:\d\d: format types\n$", done.stderr)


def test_the_slow_tests_run_when_all_are_asked_for_and_when_they_are_named(clone: Path) -> None:
    assert "<-m> <not slow> <--hypothesis-profile> <quick>" in start(clone / "test").stdout
    every = start(clone / "test", "--all").stdout
    assert "did pytest" in every
    assert "not slow" not in every
    assert "quick" not in every
    assert start(clone / "test", "tests/faults", "-q").stdout == "did pytest <-m> <pytest> <tests/faults> <-q>\n"


# Stands for one release of Python: asked for its patch it says it, and is otherwise as above.
RELEASE = """#!/bin/sh
[ "$1" = - ] || exec "{python}" "$@"
cat >/dev/null; echo {patch}
"""
SHIM = "#!/bin/sh\necho 'pyenv: python3.99: command not found' >&2; exit 127\n"


def install(folder: Path, on_path: str, *pyenv: str) -> dict[str, str]:
    """Releases of Python 3.99, on PATH and among pyenv's versions, and the environment that has them."""
    texts = {folder / "bin": on_path} | {folder / "pyenv/versions" / f"3.99.{patch}" / "bin": patch for patch in pyenv}
    for place, patch in texts.items():
        place.mkdir(parents=True)
        program = place / "python3.99"
        program.write_text(SHIM if patch == "shim" else RELEASE.format(python=folder / "python", patch=patch))
        program.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYENV_ROOT": str(folder / "pyenv")}


@pytest.mark.parametrize(
    ("on_path", "pyenv", "found"),
    [
        ("shim", ("9", "10"), "pyenv/versions/3.99.10/bin/python3.99"),
        ("3", ("2",), "python3.99"),
        ("-1", ("-1",), ""),
        ("shim", (), ""),
    ],
    ids=["newest of pyenv", "newest on PATH", "pre-releases", "only a shim"],
)
def test_of_each_version_the_newest_release_is_found(
    clone: Path, on_path: str, pyenv: tuple[str, ...], found: str
) -> None:
    """X9."""
    environment = {**os.environ, **install(clone.parent, on_path, *pyenv)}
    done = subprocess.run(
        ["bash", "-c", ". scripts/venv.sh; newest_python 3.99"],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip().removeprefix(f"{clone.parent}/") == found
    assert done.returncode == (0 if found else 1)


def test_the_tests_run_on_another_python_in_an_environment_of_its_own(clone: Path) -> None:
    """X9."""
    environment = install(clone.parent, "shim", "4")
    done = start(clone / "test", "--python", "3.99", environment=environment)
    assert "Making .venv-3.99" in done.stderr
    assert "<-m> <not slow> <--hypothesis-profile> <quick>" in done.stdout
    assert "did ruff" not in done.stdout
    assert (done.returncode, (clone / ".venv").exists()) == (0, False)
    again = start(clone / "test", "--python", "3.99", "tests/x", environment=environment)
    assert again.stderr == ""
    assert again.stdout.endswith("<tests/x>\n")
    missing = start(clone / "test", "--python", "3.98", environment=environment)
    assert missing.returncode == 1
    assert missing.stderr.startswith("Python 3.98 was not found")


@settings(max_examples=150)
@given(st.integers())
def test_a_property_names_how_many_examples_it_wants(number: int) -> None:
    assert int(str(number)) == number


def test_a_quick_run_tries_a_fifth_of_them() -> None:
    """Also of a property that names a number itself, so that no test has to be changed for it."""
    quick = settings.get_current_profile_name() == "quick"
    of_property: Any = test_a_property_names_how_many_examples_it_wants
    assert of_property._hypothesis_internal_use_settings.max_examples == (30 if quick else 150)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("many", "better", "code"),
    [(2, True, 0), (2, False, 1), (6, True, 1)],
    ids=["alone they pass", "alone they fail too", "too many to be chance"],
)
def test_what_failed_is_run_once_more_alone(clone: Path, many: int, better: bool, code: int) -> None:
    """A test that depends on what runs beside it is named, and one that is simply wrong still fails the run."""
    # Before `.venv` is made for it: one that it does not fit would be installed anew, by the Python of this run.
    (clone / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['slow']\n")
    start(clone / "run")
    binaries = clone / ".venv" / "bin"
    for name in ("ruff", "pyright", "lint-imports"):
        (binaries / name).write_text("#!/bin/sh\n")
    (binaries / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (clone / "conftest.py").write_text("import hypothesis\nhypothesis.settings.register_profile('quick')\n")
    (clone / "test_chance.py").write_text(
        "import pathlib, pytest\n"
        f"@pytest.mark.parametrize('number', range({many}))\n"
        "def test_chance(number):\n"
        "    once = pathlib.Path(f'once-{number}')\n"
        "    there = once.exists()\n"
        "    once.touch()\n"
        f"    assert there and {better}\n"
        "def test_sure():\n"
        "    pass\n"
    )
    for stamp in (clone / ".venv").glob(".ferrule-*"):
        shutil.copy(stamp, stamp.with_name(".ferrule-test"))
    done = start(clone / "test", environment={"FERRULE_TEST_JOBS": "2"})
    assert done.returncode == code, done.stdout + done.stderr
    assert "Installing" not in done.stderr
    assert bool(re.search(r"\nAll passed in \d+:\d\d\.", done.stdout)) == (code == 0)
    assert ("passed alone" in done.stdout) == (code == 0)
    assert f"{many} failed, 1 passed" in done.stdout
