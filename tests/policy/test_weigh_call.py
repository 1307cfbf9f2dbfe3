"""Calls of tools that run no command: by name, by what they say of themselves, by paths and hosts (P4)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.policy.stand_in import policy, verdict

from ferrule import CallInfo, Session, reads, tool, writes
from ferrule.builtin.edit import edit, multi_edit, write
from ferrule.builtin.read import read_file


def make(name: str, **options: Any) -> Any:
    async def body(path: str = "x") -> str:
        return path

    return tool(body, name=name, **options)


SAVE = make("save", kind="write", touches=writes("path", "{path}"))
DEPLOY = make("deploy", kind="execute", touches=lambda params: [writes("path", params.path)])
POST = make("post", kind="write", touches=[writes("host", "example.org")])
WIPE = make("wipe", kind="write", dangerous=True, touches=lambda params: [writes("path", params.path)])
FETCH = make("WebFetch", kind="execute", touches=lambda params: [reads("host", params.path)])
LOOK = make("look", kind="readonly", touches=lambda params: [reads("host", params.path)])
BRANCH = make("branch", kind="write", signature=lambda params: params.path)
MUTE = make("mute", kind="write")


@pytest.mark.parametrize("one", [write, SAVE])
def test_a_rule_about_a_path_holds_for_every_tool(session: Session, one: Any):
    arguments = {"content": "x", "file_path": "src/a.py"} if one is write else {"path": "src/a.py"}
    assert verdict(policy(), session, one, **arguments) == "ask"
    assert verdict(policy(allow=["Edit(/src/**)"]), session, one, **arguments) == "allow"
    assert verdict(policy(allow=["Write(/src/**)"]), session, one, **arguments) == "allow"
    assert verdict(policy(allow=["Edit(/lib/**)"]), session, one, **arguments) == "ask"
    assert verdict(policy(deny=["Edit(*.py)"], mode="bypass"), session, one, **arguments) == "deny"
    assert verdict(policy(ask=["Edit(*.py)"], allow=["*"]), session, one, **arguments) == "ask"


def test_a_denied_read_is_denied_to_every_tool_that_reads(session: Session):
    assert verdict(policy(deny=["Read(a.txt)"]), session, read_file, filePath="sub/a.txt") == "deny"
    assert verdict(policy(deny=["Read(a.txt)"]), session, read_file, filePath="sub/b.txt") == "allow"


def test_a_tool_that_does_more_than_write_a_path_needs_its_own_name(session: Session):
    inside = {"path": str(session.workspace / "x")}
    for one in (DEPLOY, WIPE):
        assert verdict(policy(allow=["Edit(**)"]), session, one, **inside) == "ask"
        assert verdict(policy(mode="accept-edits"), session, one, **inside) == "ask"
        assert verdict(policy(allow=[one.name]), session, one, **inside) == "allow"


def test_accepted_edits_are_inside_the_workspace(session: Session):
    accepting = policy(mode="accept-edits")
    assert verdict(accepting, session, SAVE, path="a") == "allow"
    assert verdict(accepting, session, SAVE, path="../a") == "ask"
    assert verdict(accepting, session, POST) == "ask"
    assert verdict(accepting, session, MUTE) == "allow", "as the kind says, where a tool says nothing of paths"
    assert verdict(accepting, session, edit, file_path="a", old_string="a", new_string="b") == "allow"


def test_hosts_are_denied_to_every_tool_and_allowed_to_the_one_that_fetches(session: Session):
    assert verdict(policy(), session, FETCH, path="example.org") == "ask"
    assert verdict(policy(allow=["WebFetch(domain:example.org)"]), session, FETCH, path="example.org") == "allow"
    assert verdict(policy(allow=["WebFetch(domain:example.org)"]), session, FETCH, path="evil.org") == "ask"
    assert verdict(policy(deny=["WebFetch(domain:evil.org)"]), session, LOOK, path="api.evil.org") == "deny"
    assert verdict(policy(ask=["WebFetch(domain:evil.org)"]), session, LOOK, path="evil.org") == "ask"
    assert verdict(policy(), session, LOOK, path="evil.org") == "allow"


def test_brackets_of_any_other_tool_hold_what_the_tool_says_of_a_call(session: Session):
    """T6."""
    rules = policy(allow=["branch(feature/*)"], deny=["branch(main)"])
    verdicts = [verdict(rules, session, BRANCH, path=name) for name in ("feature/x", "main", "other")]
    assert verdicts == ["allow", "deny", "ask"]


def test_several_writes_all_need_leave(session: Session):
    both = make("both", kind="write", describe=lambda params, session: CallInfo(
        touches=[writes("path", session.directory / "a"), writes("path", session.directory / "b")]))  # fmt: skip
    assert verdict(policy(allow=["Edit(/a)"]), session, both) == "ask"
    assert verdict(policy(allow=["Edit(/a)", "Edit(/b)"]), session, both) == "allow"


def test_a_link_out_is_where_it_leads(session: Session):
    (session.workspace / "out").symlink_to(session.workspace.parent)
    arguments = {"file_path": "out/x", "edits": [{"old_string": "a", "new_string": "b"}]}
    assert verdict(policy(mode="accept-edits"), session, multi_edit, **arguments) == "ask"
    assert verdict(policy(allow=["Edit(./out/**)"]), session, multi_edit, **arguments) == "ask"
