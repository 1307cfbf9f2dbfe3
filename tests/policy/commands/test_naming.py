from __future__ import annotations

from ferrule.policy.commands.naming import names


def test_names_may_run_over_lines():
    assert names("a b\n  c\n") == ("a", "b", "c")
