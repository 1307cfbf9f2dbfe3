"""What the file tools keep back when they go through a folder."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from tests.policy.stand_in import policy

from ferrule import Session
from ferrule.policy.findings import roots_of
from ferrule.policy.restrictions import RuleRestrictions


def test_denied_paths_are_named_with_their_rule(session: Session):
    kept, roots = RuleRestrictions(policy(deny=["Read(.key)", "Edit(./keep/**)"])), roots_of(session)
    assert kept.denies_reads
    assert kept.denies_read(f"{roots[0]}/a/.key", roots) == "`Read(.key)` from the program"
    assert kept.denies_read(f"{roots[0]}/a", roots) is None
    assert kept.denies_write(f"{roots[0]}/keep/a", roots) == "`Edit(./keep/**)` from the program"
    assert kept.denies_write(f"{roots[0]}/ferrule.toml", roots) is not None


def test_a_search_holds_back_what_would_ask_unless_it_was_asked_about(session: Session):
    kept, roots = RuleRestrictions(policy(ask=["Read(./diary/**)"])), roots_of(session)
    root = roots[0]
    assert kept.holds_back(f"{root}/diary/may", root, roots) == "`Read(./diary/**)` from the program"
    assert kept.holds_back(f"{root}/diary/may", f"{root}/diary", roots) is None
    assert kept.holds_back(f"{root}/.env", root, roots) is not None
    assert kept.holds_back(f"{root}/src/a.py", root, roots) is None


def test_what_the_person_allows_or_bypasses_is_not_held_back(session: Session):
    roots = roots_of(session)
    for rules in (policy(allow=["Read(.env)"]), policy(mode="bypass")):
        assert RuleRestrictions(rules).holds_back(f"{roots[0]}/.env", roots[0], roots) is None
    denied = RuleRestrictions(policy(mode="bypass", deny=["Read(.env)"]))
    assert denied.holds_back(f"{roots[0]}/.env", roots[0], roots) is not None


def test_a_search_need_not_open_what_is_held_back_by_its_name(session: Session):
    kept, roots = RuleRestrictions(policy(deny=["Read(secrets)", "Read(./a/b/*.txt)"])), roots_of(session)
    root = roots[0]
    assert {"secrets", ".env"} <= set(kept.left_out(root, roots))
    assert ".env" not in kept.left_out(f"{root}/.env", roots)
    assert kept.may_hold_back(root, roots)
    assert not RuleRestrictions(policy(mode="bypass")).may_hold_back(root, roots)


NAMES = [
    ".env", ".ENV", "a", "A", "id_rsa", "secrets", "x.key", "X.Pem", ".ssh", "b.txt", ".aws", "credentials", "\n",
    "İ.key", ".env.\udcff",
]  # fmt: skip
LISTS: list[dict[str, Any]] = [
    {},
    {"deny": ["Read(*.key)"]},
    {"ask": ["Read(secrets)"]},
    {"deny": ["Read(./a/**)"]},
    {"deny": ["Read(//room/a/secrets)"], "ask": ["Read(//ro*/**)"]},
    {"deny": ["Read(**/a/*.txt)", "Read([a-c].t?t)"]},
    {"deny": ["Read(secrets/**)"], "allow": ["Read(.env)"]},
    {"ask": ["Read(*)"]},
    {"deny": ["Read(a*)", "Read(.s?h)", "Read(~/a/*.txt)"]},
    {"deny": ["Read(**/a/**)", "Read([!.]*y)", "Read(./a)"], "mode": "bypass"},
]


@given(
    st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), max_size=8),
    st.sampled_from(LISTS),
    st.sampled_from(["", "/a", "/.env"]),
)
def test_many_paths_at_once_are_told_as_one_by_one(parts: list[list[str]], lists: dict[str, Any], below: str):
    kept, roots = RuleRestrictions(policy(**lists)), ("/room",)
    paths = ["/room/" + "/".join(one) for one in parts]
    one_by_one = [kept.holds_back(path, f"/room{below}", roots) is not None for path in paths]
    assert kept.held_back(paths, f"/room{below}", roots) == one_by_one


@given(
    st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), max_size=8),
    st.sampled_from(LISTS),
    st.sampled_from(["/room", "/Room/.ssh", "/room/a", "/"]),
    st.sampled_from(["", "/a", "/.env"]),
)
def test_of_a_listing_the_same_are_held_back(parts: list[list[str]], lists: dict[str, Any], root: str, below: str):
    """S3: one look at a whole listing finds each that is found one by one, the home in the workspace or not."""
    kept, roots = RuleRestrictions(policy(**lists)), (root,)
    inner, start = ["/".join(one) for one in parts], f"{root.rstrip('/')}{below}" or "/"
    paths = [f"{root.rstrip('/')}/{one}" for one in inner]
    for home in ("/nowhere", root, f"{root}/a"):
        with patch.dict(os.environ, HOME=home):
            held = [path for path, is_held in zip(paths, kept.held_back(paths, start, roots), strict=True) if is_held]
            found = kept.held_in(root, "".join(f"./{one}\0" for one in inner), start, roots)
            assert set(found) == (set(held) if kept.may_hold_back(start, roots) else set())


@given(
    st.sets(st.sampled_from(NAMES)),
    st.lists(st.sampled_from(NAMES), max_size=3),
    st.sampled_from(LISTS),
    st.sampled_from(["/room", "/Room/.ssh", "/"]),
)
def test_what_lies_in_a_folder_is_hidden_as_if_it_were_looked_at_alone(
    names: set[str], above: list[str], lists: dict[str, list[str]], root: str
):
    """S6: one look at all names of a folder finds each that a rule is about."""
    kept, roots = RuleRestrictions(policy(**lists)), (root,)
    paths = [f"{'/'.join((root.rstrip('/'), *above))}/{name}" for name in sorted(names)]
    hidden = [kept.hides(path, roots) is not None for path in paths]
    assert kept.hidden_among(paths, roots) == [path for path, is_hidden in zip(paths, hidden, strict=True) if is_hidden]
    folder = "/".join((root.rstrip("/"), *above)) or "/"
    may = kept.may_hide(folder, "".join(f"{name}/" for name in sorted(names)), roots)
    assert {name for name, is_hidden in zip(sorted(names), hidden, strict=True) if is_hidden} <= set(may)


def test_a_path_at_the_very_top_is_told_beside_those_of_a_folder():
    """S6: their names joined look as if all were of the folder of the first."""
    kept = RuleRestrictions(policy(deny=["Read(//secrets)"]))
    assert kept.hidden_among(["/room/a", "/secrets"], ("/room",)) == ["/secrets"]
    assert kept.may_hide("/", "room/secrets/", ("/room",)) == ["secrets"]
    assert kept.may_hide("/room", "a/secrets/", ("/room",)) == []
