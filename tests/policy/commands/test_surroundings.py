"""What is known at a point of a command."""

from __future__ import annotations

from ferrule.policy.commands.expansion import Loose, is_number
from ferrule.policy.commands.surroundings import Surroundings, is_no_file


def test_what_may_not_have_happened_is_forgotten():
    here = Surroundings(None, None)
    here.set("x", "ls")
    kept = here.kept()
    here.set("x", "rm")
    here.set("y", "z")
    here.move("a")
    here.define("f", "f() { ls; }")
    here.maybe_since(kept)
    assert (here.variables.get("x"), here.variables.get("y"), here.functions) == (None, None, frozenset())
    assert here.folders == ("a", "")


def test_a_subshell_leaves_nothing_behind():
    here = Surroundings("/w", "/h")
    kept = here.kept()
    here.set("x", "1")
    here.move("~")
    here.back_to(kept)
    assert (here.variables, here.folders) == ({"HOME": "/h", "PWD": "/w"}, ("/w",))


def test_a_loop_forgets_what_it_sets_but_counting_stays_counting():
    here = Surroundings(None, None)
    for name, value in {"i": "0", "n": "0", "c": "ls", "k": "1"}.items():
        here.set(name, value)
    here.forget_set_in("for x in a; do i=$((i+1)); ((n++)); c=rm; echo $k; done")
    assert is_number(here.variables["i"])
    assert is_number(here.variables["n"])
    assert "c" not in here.variables
    assert here.variables["k"] == "1"


def test_a_called_function_may_have_set_what_it_names():
    here = Surroundings(None, None)
    here.define("f", "f() { x=rm; cd ..; }")
    here.set("x", "ls")
    here.set("y", "ls")
    here.called()
    assert ("x" in here.variables, here.variables["y"], here.folders) == (False, "ls", None)


def test_variables_that_change_by_themselves_are_never_known():
    here = Surroundings(None, None)
    for name in ("_", "REPLY", "RANDOM", "PATH", "BASH_REMATCH"):
        here.set(name, "ls")
    assert here.variables == {"HOME": "~"}


def test_paths_and_patterns_are_placed_in_every_folder_that_may_be():
    here = Surroundings(None, None)
    kept = here.folders
    here.move("a")
    here.may_have_stayed(kept)
    paths = ["x", "/y", "~/z", "-", "/dev/null", Loose("$q"), Loose("*", globs=("*",)), Loose("$f", choices=("c",))]
    assert here.paths(paths) == (("a/x", "x", "/y", "~/z", None, "a/c", "c"), ("a/*", "*"))
    here.move("")
    assert here.paths(["x", Loose("*", globs=("*",))]) == ((None,), ())


def test_too_many_folders_are_anywhere():
    here = Surroundings(None, None)
    for folder in "abc":
        kept = here.folders
        here.move(folder)
        here.may_have_stayed(kept)
    assert here.folders is None


def test_what_is_thrown_away_is_no_file():
    assert is_no_file("/dev/null")
    assert not is_no_file(Loose("/dev/null"))
