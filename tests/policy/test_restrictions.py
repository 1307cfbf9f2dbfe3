"""What the file tools keep back when they go through a folder."""

from __future__ import annotations

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


def test_where_a_search_must_look(session: Session):
    kept, roots = (
        RuleRestrictions(policy(deny=["Read(secrets)", "Read(./a/b/*.txt)", "Read(//elsewhere/**)"])),
        roots_of(session),
    )
    root = roots[0]
    assert ".env" in kept.names(root, roots)
    assert "secrets" not in kept.names(root, roots)
    assert {"secrets", ".env"} <= set(kept.left_out(root, roots))
    assert kept.places(root, roots) == [f"{root}/a/b"]
    assert {"**/secrets", "**/secrets/**", "**/.ssh/**", "**/.aws/credentials"} <= set(kept.anywhere(root, roots))
    assert "**/.env" not in kept.anywhere(root, roots)
    assert ".env" not in kept.left_out(f"{root}/.env", roots)


@given(
    st.lists(
        st.lists(st.sampled_from([".env", "a", "id_rsa", "secrets", "x.key", ".ssh", "b.txt"]), min_size=1, max_size=3),
        max_size=8,
    ),
    st.sampled_from([{}, {"deny": ["Read(*.key)"]}, {"ask": ["Read(secrets)"]}, {"deny": ["Read(./a/**)"]}]),
    st.sampled_from(["", "/a", "/.env"]),
)
def test_many_paths_at_once_are_told_as_one_by_one(parts: list[list[str]], lists: dict[str, list[str]], below: str):
    kept, roots = RuleRestrictions(policy(**lists)), ("/room",)
    paths = ["/room/" + "/".join(one) for one in parts]
    one_by_one = [kept.holds_back(path, f"/room{below}", roots) is not None for path in paths]
    assert kept.held_back(paths, f"/room{below}", roots) == one_by_one
