"""The state of a session as data: what goes into a bash comes out of it the same, and nothing else gets in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_any
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.process.shell.state import Function, ShellState, Variable, environment, given, parse, program

BASH = "/bin/bash"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "GONE": "1"}


def dump_of(state: ShellState, command: str, variables: Mapping[str, str] = ENVIRONMENT, folder: str = "/") -> bytes:
    """What comes out of a bash that ran a command in a state."""
    private = os.memfd_create("state")
    pause, held = os.pipe()
    try:
        content = given(state, command.encode(errors="surrogateescape"), private, pause)
        os.write(private, content)
        os.lseek(private, 0, os.SEEK_SET)
        subprocess.run(
            program(state, BASH, private, pause),
            env={**variables, **environment(state)},
            pass_fds=(private, pause),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
        )
        return os.pread(private, 1 << 24, len(content))
    finally:
        for number in (private, pause, held):
            os.close(number)


def after(state: ShellState, command: str) -> ShellState:
    found, notes = parse(dump_of(state, command), state)
    assert found is not None, notes
    return found


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).map(lambda name: f"v_{name}")
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30) | st.binary(
    max_size=20
).map(lambda data: data.replace(b"\0", b"").decode(errors="surrogateescape"))
HOSTILE = st.sampled_from(
    ["$(touch /tmp/pwned)", "`touch /tmp/pwned`", "'; touch /tmp/pwned; '", '"', "\\", "]", "a]=b", "*", "@", "$x", "~",
     "\n", "!", "#", " ", "x[$(touch /tmp/pwned)]", "'", "()", "{ :; }", "\x1b[31m", "é\udcff", "\x7f", "\u2028"]
)  # fmt: skip
VALUES = TEXTS | HOSTILE
KEYS = VALUES.filter(bool)
SCALARS = st.builds(Variable, st.sampled_from(["", "x", "r", "rx", "t"]), VALUES)
NUMBERS = st.builds(Variable, st.sampled_from(["i", "ix"]), st.integers(-(1 << 62), 1 << 62).map(str))
UNSET = st.builds(Variable, st.sampled_from(["a", "A", "x", "i"]), st.none())
LISTS = st.builds(
    lambda attributes, items: Variable(attributes, tuple((str(key), items[key]) for key in sorted(items))),
    st.sampled_from(["a", "ax", "ar"]),
    st.dictionaries(st.integers(0, 10_000), VALUES, max_size=6),
)
TABLES = st.builds(
    lambda attributes, items: Variable(attributes, tuple(items.items())),
    st.sampled_from(["A", "Ax", "Ar"]),
    st.dictionaries(KEYS, VALUES, max_size=6),
)
BODIES = st.sampled_from(
    ["echo $1", "( echo a; echo b ) | cat", "cat <<E\n$x\nf () \n{ \nE", "case $1 in a) :;; *) echo;; esac",
     "local -r y=1", "for i in 1 2; do echo $i; done > /dev/null", "echo 'a\nb'", "[[ $x =~ ^(a|b)$ ]]",
     "inner() { :; }; inner"]
)  # fmt: skip


@st.composite
def states(draw: st.DrawFn) -> ShellState:
    """A state as bash would print it: functions are made by a bash."""
    state = ShellState(
        folder=draw(st.sampled_from(["/", "/usr", "/usr/bin"])),
        variables=draw(st.dictionaries(NAMES, SCALARS | NUMBERS | UNSET | LISTS | TABLES, max_size=6)),
        removed=draw(st.sampled_from([frozenset[str](), frozenset({"GONE"})])),
        aliases=draw(st.dictionaries(st.from_regex(r"[a-z.]{1,5}", fullmatch=True), VALUES, max_size=3)),
        set_options=draw(
            st.dictionaries(st.sampled_from(["errexit", "nounset", "noglob", "pipefail", "xtrace"]), st.just(True))
        ),
        shopt_options=draw(st.dictionaries(st.sampled_from(["extglob", "dotglob", "nullglob"]), st.just(True))),
        parameters=tuple(draw(st.lists(VALUES, max_size=4))),
        umask=draw(st.sampled_from(["0022", "0077"])),
    )
    names = draw(st.lists(st.sampled_from(["f", "g-h", "a.b", "é", "read", "declare"]), max_size=2, unique=True))
    made = "\n".join(f"{name}() {{ {draw(BODIES)}\n}}" for name in names)
    made += "".join(f"\nexport -f {name}" for name in names if draw(st.booleans()))
    return after(state, made) if names else state


@settings(max_examples=40)
@given_any(states())
def test_a_state_that_goes_in_comes_out_the_same(state: ShellState) -> None:
    """Whatever variables, functions, aliases and parameters hold; and nothing of it is run on the way."""
    Path("/tmp/pwned").unlink(missing_ok=True)
    came_out = after(state, ":")
    assert {name: _sorted(one) for name, one in came_out.variables.items() if name != "OLDPWD"} == {
        name: _sorted(one) for name, one in state.variables.items() if name != "OLDPWD"
    }
    for part in ("folder", "removed", "functions", "aliases", "set_options", "shopt_options", "parameters", "umask"):
        assert getattr(came_out, part) == getattr(state, part)
    assert not Path("/tmp/pwned").exists()
    again = after(came_out, ":")
    assert again == came_out


def _sorted(one: Variable) -> Variable:
    """A table has no order."""
    return Variable(one.attributes, tuple(sorted(one.value))) if isinstance(one.value, tuple) else one


@pytest.mark.parametrize(
    "command",
    [
        "declare -n ref=x; x=1",
        "declare -n unbound",
        "readonly r=1; readonly -a l=(1 2); readonly -A t=([a]=b)",
        "declare -u U=abc; declare -l L=ABC; declare -c C=abc",
        "declare -ia n=(1 2 3)",
        "unset IFS",
        "IFS=$'\\n'; OPTIND=3; PS4='> '; CDPATH=/usr",
        "export LC_ALL=C; x=$'\\303\\251'",
        "POSIXLY_CORRECT=y",
        "set -o posix; set -f; set +B; set +h",
        "shopt -s extglob\nf() { case $1 in @(a|b)) :;; esac; }",
        "a=(); declare -A b=(); declare -a c; declare -A d",
        "f() { :; }; readonly -f f; g() { :; }; declare -ft g; export -f g",
        "x=$(printf 'x%.0s' {1..200000})",
        "cd /usr; cd bin; cd -",
        "PATH=/opt:$PATH; export NEW='a b'; unset GONE",
        "GONE=2; set -- '' ' ' $'\\n' é",
    ],
)
def test_what_bash_itself_made_survives(command: str) -> None:
    state = after(ShellState(folder="/"), command)
    assert after(state, ":") == state


def test_only_what_differs_from_a_fresh_bash_is_kept() -> None:
    """So that what a box gives its command by itself, as the address of a proxy, is that box's own."""
    state = after(ShellState(folder="/"), "cd /; x=1; RANDOM=4; SECONDS=9; BASH_ARGV0=q; COLUMNS=70")
    assert (dict(state.variables), state.removed) == (
        {"OLDPWD": Variable("x", "/"), "x": Variable("", "1")},
        frozenset(),
    )
    found, _ = parse(dump_of(state, ":", {**ENVIRONMENT, "http_proxy": "http://127.0.0.1:1"}), state)
    assert found is not None
    assert dict(found.variables) == dict(state.variables)


def test_what_a_command_unset_of_one_box_stays_unset_in_another() -> None:
    state = after(ShellState(), "unset GONE")
    elsewhere, _ = parse(dump_of(state, ":", {"PATH": "/bin"}), state)
    assert elsewhere is not None
    assert elsewhere.removed == {"GONE"}
    assert "GONE" not in after(elsewhere, "x=${GONE-none}").variables


START = b'declare -x PATH="/bin"\n\0braceexpand\0sourcepath\0/\n\0 \0'
END = [b"braceexpand", b"sourcepath", b"1", b"0", b"", b"/\n", b"0022\n", b"VARIABLES", b"", b"FUNCTIONS", b"end"]


def forged(variables: bytes = b"", functions: bytes = b"", **changed: bytes) -> bytes:
    parts = list(END)
    parts[7], parts[9] = b'declare -x PATH="/bin"\n' + variables, functions
    for name, value in changed.items():
        parts[{"options": 0, "count": 2, "status": 3, "folder": 5, "umask": 6}[name]] = value
    return START + b"\0".join(parts)


def test_what_is_forged_well_is_only_data() -> None:
    found, notes = parse(forged(b'declare -- x="a\\$b"\n'), ShellState())
    assert (found and dict(found.variables), notes) == ({"x": Variable("", "a$b")}, ())


@pytest.mark.parametrize(
    "dump",
    [
        forged(b'declare -- x="$(touch pwned)"\n'),
        forged(b'declare -- x="`touch pwned`"\n'),
        forged(b"declare -- x=$(touch pwned)\n"),
        forged(b'declare -- x="a"; touch pwned\n'),
        forged(b'declare -- x="a"\ntouch pwned\n'),
        forged(b'declare -- x;y="a"\n'),
        forged(b'declare -- x="a'),
        forged(b'declare -f x="a"\n'),
        forged(b'declare -a x="a"\n'),
        forged(b'declare -- x=([0]="a")\n'),
        forged(b'declare -a x=([$(touch pwned)]="a")\n'),
        forged(b'declare -A x=([a]="b" c)\n'),
        forged(b'declare -- x="1"\ndeclare -- x="2"\n'),
        forged(b'declare -- BASH_ALIASES=([a]="b")\n'),
        forged(functions=b"declare -f f\ntouch pwned"),
        forged(functions=b"declare -f f\0touch pwned"),
        forged(functions=b"declare -f f\0g () \n{ \n:\n}"),
        forged(options=b"errexit; touch pwned"),
        forged(count=b"99999999"),
        forged(count=b"x"),
        forged(status=b"$(touch pwned)"),
        forged(umask=b"0022; touch pwned"),
        forged() + b"\0end",
        START + b"end",
        START[:-20] + b"\0\0\0\0\0\0end",
        b"\0" * 10_000,
        b"\xff" * 100,
    ],
)
def test_what_bash_would_not_print_is_refused(dump: bytes) -> None:
    found, notes = parse(dump, ShellState(folder="/"))
    assert found is None
    assert notes[-1].endswith("The shell's folder and variables are as before this command.")


RICH = "x='a b'; a=(1 2); declare -A m=([k]=v); f() { echo f; }; alias ll='ls -l'; set -- p q; set -u; trap : USR1"


@pytest.fixture(scope="module")
def real() -> bytes:
    return dump_of(ShellState(folder="/"), RICH)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given_any(st.data())
def test_whatever_comes_out_is_taken_or_refused_and_never_breaks_the_next(real: bytes, data: st.DataObject) -> None:
    """Any damage to what bash printed: parsing never fails, and what it takes is lines that bash can read."""
    damaged = bytearray(real)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place : place + data.draw(st.integers(0, 40))] = data.draw(
            st.binary(max_size=8)
            | st.sampled_from([b"\0", b'"', b"'", b"\n", b"=(", b"declare -- y=", b"BASH_ALIASES", b"$("])
        )
    found, notes = parse(bytes(damaged), ShellState(folder="/"))
    if found is None:
        assert notes
    else:
        lines = given(found, b"", 20, 21).split(b"\0")[1]
        checked = subprocess.run([BASH, "-n"], input=lines, capture_output=True)
        assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize(
    "variables",
    [
        b'declare -i x="y[\\$(touch pwned)]"\n',
        b'declare -a x=(["\\$(touch pwned)"]="a")\n',
        b'declare -ai x=([0]="q")\n',
    ],
)
def test_what_bash_would_compute_is_dropped_and_said(variables: bytes) -> None:
    found, notes = parse(forged(variables), ShellState(folder="/"))
    assert (found and dict(found.variables), notes) == ({}, ("The variable `x` cannot be kept for the next command.",))


def test_functions_that_the_environment_cannot_hold_are_dropped_and_said() -> None:
    many = b"".join(b"declare -f f%d\n" % number for number in range(7))
    texts = b"\0".join(b"f%d () \n{ \n    : %s\n}\n" % (number, b"x" * 119_000) for number in range(7))
    found, notes = parse(forged(functions=many + b"\0" + texts), ShellState(folder="/"))
    assert found is not None
    assert len(found.functions) == 5
    assert notes == snapshot(("The functions `f5`, `f6` cannot be kept for the next command.",))
    large = b"declare -f f\n\0f () \n{ \n    : " + b"x" * 200_000 + b"\n}\n"
    assert parse(forged(functions=large), ShellState())[1] == ("The function `f` cannot be kept for the next command.",)


@pytest.mark.parametrize(
    "text", ["() { :; }; touch PWNED", "() { :; }\ntouch PWNED", "() { :; } >PWNED", "() { \n}; touch PWNED"]
)
def test_a_function_that_is_more_than_a_definition_runs_nothing(text: str, tmp_path: Path) -> None:
    """Bash takes nothing but a definition from its environment."""
    state = ShellState(functions={"f": Function("", text.replace("PWNED", f"{tmp_path}/pwned"))})
    dump_of(state, ":")
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_tainted_until_it_means_again_what_it_meant() -> None:
    before = ShellState(variables={"PATH": Variable("x", "/bin")}, functions={"f": Function("", "() { 1; }")})
    tried = ShellState(
        variables={"PATH": Variable("x", "/evil"), "IFS": Variable("", "/"), "quiet": Variable("", "1")},
        functions={"f": Function("", "() { 2; }")},
        aliases={"ls": "evil"},
    )
    looked = tried.after(before, tainted=True)
    assert looked.tainted == {"PATH", "IFS", "f", "ls"}
    approved = ShellState(
        variables={"PATH": Variable("x", "/evil:/more"), "NEW": Variable("x", "1")}, removed=frozenset()
    )
    assert approved.after(looked, tainted=False).tainted == {"PATH", "f"}
    assert before.after(looked, tainted=False).tainted == frozenset()
    assert tried.after(before, tainted=False).tainted == frozenset()


def test_a_variable_of_the_environment_that_was_removed_is_tainted() -> None:
    looked = ShellState(removed=frozenset({"GIT_CONFIG_NOSYSTEM"})).after(ShellState(), tainted=True)
    assert looked.tainted == {"GIT_CONFIG_NOSYSTEM"}
    assert ShellState().after(looked, tainted=False).tainted == frozenset()


def test_only_names_that_an_alias_can_have_are_taken() -> None:
    found, _ = parse(forged(b'declare -A BASH_ALIASES=(["git=evil"]="x" ["a b"]="y" [ll]="ls")\n'), ShellState())
    assert found is not None
    assert dict(found.aliases) == {"ll": "ls"}
    found, _ = parse(forged(b'declare -- BASH_ALIASES="ab"\n'), ShellState())
    assert found is not None
    assert dict(found.aliases) == {}
