"""What becomes of the effects of a tried call: by rules about paths, by the mode, or by the user (P4)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.policy.stand_in import bash, invoke, policy

from ferrule import Mode, Runtime, Session
from ferrule.core.call import Barrier, Effects, FileEffect
from ferrule.testing import ScriptedAsker


def effect(session: Session, action: Any, path: str, **more: Any) -> FileEffect:
    return FileEffect(action, f"{os.path.realpath(session.workspace)}/{path}", path, **more)


def judged(session: Session, *files: FileEffect, barriers: tuple[Barrier, ...] = (), **lists: Any) -> str:
    found = policy(**lists).decide_effects(
        invoke(bash, session, command="x"), Effects(files, barriers=barriers), session
    )
    return "drop" if found.tentative else found.verdict.value


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("default", "ask"), ("plan", "drop"), ("accept-edits", "allow"), ("dont-ask", "deny"), ("bypass", "allow")],
)
def test_a_changed_file_goes_by_the_mode(session: Session, mode: str, expected: str):
    assert judged(session, effect(session, "change", "src/a.py"), mode=mode) == expected


@pytest.mark.parametrize("mode", ["default", "plan", "accept-edits", "dont-ask", "bypass"])
@pytest.mark.parametrize("action", ["create", "change", "delete", "rename", "mode"])
def test_no_mode_and_no_rule_keeps_what_a_deny_rule_is_about(session: Session, mode: str, action: str):
    lists: dict[str, Any] = {"mode": mode, "deny": ["Edit(./keep/**)"], "allow": ["Edit(./**)", "Bash", "*"]}
    assert judged(session, effect(session, "create", "a"), effect(session, action, "keep/x"), **lists) == "deny"
    assert judged(session, effect(session, action, "ferrule.toml"), mode=mode, allow=["*"]) == "deny"


def test_s2_what_opens_a_file_to_everyone_asks_where_edits_are_accepted(session: Session):
    opened = effect(session, "mode", "a", detail="0644 -> 0777", opens=True)
    assert judged(session, opened, mode="accept-edits") == "ask"
    assert judged(session, opened, mode="accept-edits", allow=["Edit(./a)"]) == "allow"
    assert judged(session, effect(session, "mode", "a", detail="0644 -> 0755"), mode="accept-edits") == "allow"


def test_what_lies_in_a_removed_folder_and_what_was_renamed_away_count_too(session: Session):
    lists: dict[str, Any] = {"mode": "accept-edits", "deny": ["Edit(./keep/x)"]}
    assert judged(session, effect(session, "delete", "keep", node="folder"), **lists) == "deny"
    assert (
        judged(session, effect(session, "rename", "new", source=str(session.workspace / "keep/x")), **lists) == "deny"
    )
    assert (
        judged(session, effect(session, "rename", "new", source=str(session.workspace / "other")), **lists) == "allow"
    )


def test_rules_that_allow_every_path_keep_all_of_it(session: Session):
    files = effect(session, "change", "src/a"), effect(session, "delete", "src/b", recoverable=False)
    assert judged(session, *files, allow=["Edit(src/**)"]) == "allow"
    assert judged(session, *files, effect(session, "create", "c"), allow=["Edit(src/**)"]) == "ask"
    assert judged(session, *files, allow=["Edit(src/**)"], ask=["Edit(src/b)"]) == "ask"
    assert judged(session, *files, allow=["Edit(src/**)"], ask=["Edit(src/b)"], mode="dont-ask") == "deny"


@pytest.mark.parametrize(
    "more",
    [
        {"action": "delete", "path": "a", "recoverable": False},
        {"action": "create", "path": "../outside"},
        {"action": "create", "path": ".git/hooks/pre-commit"},
        {"action": "change", "path": "sub/.envrc"},
        {"action": "create", "path": ".vscode/tasks.json"},
        {"action": "create", "path": "pipe", "node": "special"},
        {"action": "create", "path": "l", "node": "link", "target": "/etc/passwd"},
        {"action": "create", "path": "l", "node": "link", "target": "../../x"},
        {"action": "create", "path": "l", "node": "link", "target": "/usr/bin"},
        {"action": "create", "path": "l", "node": "link", "target": "/usr/bin/no-such-program"},
    ],
    ids=lambda more: f"{more['action']} {more['path']}",
)
def test_accepted_edits_lose_nothing_and_reach_nothing_that_runs(session: Session, more: dict[str, Any]):
    assert judged(session, effect(session, **more), mode="accept-edits") == "ask"


def test_accepted_edits_keep_changes_that_the_history_alone_can_undo(session: Session):
    assert judged(session, effect(session, "change", "a", recoverable=False), mode="accept-edits") == "allow"


def test_accepted_edits_keep_links_within_the_workspace(session: Session):
    link = effect(session, "create", "bin/l", node="link", target="../src/a")
    assert judged(session, link, mode="accept-edits") == "allow"


def test_accepted_edits_keep_links_to_programs_that_every_box_shows(session: Session, tmp_path_factory: Any):
    link = effect(session, "create", ".venv/bin/python3", node="link", target="/bin/sh")
    assert judged(session, link, mode="accept-edits") == "allow"
    program = tmp_path_factory.mktemp("another") / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    link = effect(session, "create", "l", node="link", target=str(program))
    assert judged(session, link, mode="accept-edits") == "ask"


def test_a_guarded_place_asks_in_every_mode_unless_a_rule_names_it(session: Session):
    hook = effect(session, "create", ".git/hooks/x")
    for mode in ("default", "accept-edits", "bypass"):
        assert judged(session, hook, mode=mode) == "ask"
        assert judged(session, hook, mode=mode, allow=["Edit(./**)"]) == "ask"
        assert judged(session, hook, mode=mode, allow=["Edit(.git/hooks/x)"]) == "allow"
    assert judged(session, hook, mode="dont-ask") == "deny"


BARRIERS = [
    Barrier("network", "a.org", "It reached for a.org."),
    Barrier("read", ".env", "`.env` is hidden."),
    Barrier("guarded", ".git/config", "`.git/config` is guarded."),
    Barrier("time", "", "Its time was up."),
    Barrier("limit", "", "It wrote more than 2 GB."),
]


@pytest.mark.parametrize("barrier", BARRIERS, ids=lambda one: one.kind)
def test_what_a_call_was_kept_from_asks_whatever_else_is_allowed(session: Session, barrier: Barrier):
    for lists in ({}, {"mode": "accept-edits"}, {"allow": ["Edit(./**)"]}):
        assert judged(session, effect(session, "create", "a"), barriers=(barrier,), **lists) == "ask"
    assert judged(session, barriers=(barrier,), mode="dont-ask") == "deny"
    assert judged(session, barriers=(barrier,), mode="plan") == "drop"


def test_a_denied_host_or_path_that_it_was_kept_from_is_no_question(session: Session):
    network, read, guarded = BARRIERS[:3]
    assert judged(session, barriers=(network,), deny=["WebFetch(domain:a.org)"]) == "deny"
    assert judged(session, barriers=(read,), deny=["Read(.env)"]) == "deny"
    assert judged(session, barriers=(guarded,), deny=["Edit(**/.git/**)"]) == "deny"


def test_what_it_would_do_is_said_in_one_sentence(session: Session):
    many = [effect(session, "change", f"{number}") for number in range(1_200)]
    assert [
        Effects(
            (effect(session, "change", "a"), effect(session, "change", "b"), effect(session, "delete", "c"))
        ).reason,
        Effects((effect(session, "create", "a"), *many, effect(session, "rename", "c"))).reason,
        Effects((effect(session, "mode", "a"),), barriers=tuple(BARRIERS)).reason,
    ] == snapshot(
        [
            "it would delete 1 file and change 2 files",
            "it would rename 1 file, change 1,200 files and create 1 file",
            "it would change the permissions of 1 file, it tried to reach a.org, it tried to read `.env`, which is hidden, it tried to write `.git/config`, which is protected, its trial timed out, it hit a limit: It wrote more than 2 GB",  # noqa: E501
        ]
    )


def test_through_the_pipeline_a_yes_keeps_and_a_no_drops(session: Session):
    def said(*answers: str, **lists: Any) -> list[str]:
        with ScriptedAsker(*answers) as user:
            runtime = Runtime([bash], policy=policy(**lists), session=session, ask=user if answers else None)
            results = [asyncio.run(runtime.run("Bash", {"command": "touch a"})) for _ in range(max(1, len(answers)))]
            return [result.llm_content for result in results]

    assert said("once", "no") == snapshot(["kept a: once", "dropped a: the user denied it"])
    assert said() == snapshot(["dropped a: it would create 1 file, and approval isn't available here"])
    assert said(mode="plan") == snapshot(["dropped a: mode plan tries commands and keeps none of their changes"])
    assert said(mode="accept-edits") == snapshot(
        ["kept a: mode accept-edits keeps changes in the workspace that git can restore"]
    )
    assert said(allow=["Edit(a)"]) == snapshot(["kept a: `Edit(a)` from the program allows it"])


def test_an_always_at_the_effects_lets_the_command_run_for_real_from_then_on(session: Session):
    with ScriptedAsker("always") as user:
        runtime = Runtime([bash], policy=policy(), session=session, ask=user)
        first, second = (asyncio.run(runtime.run("Bash", {"command": "touch a"})).llm_content for _ in range(2))
    assert (first, second) == ("kept a: always", "ran touch a")
    assert user.questions[0].rule == "Bash(touch *)"


PATHS = st.sampled_from(["a", "src/b", "keep/c", ".git/config", "../d", "ferrule.toml", ".env"])
FILES = st.lists(
    st.tuples(st.sampled_from(["create", "change", "delete", "mode"]), PATHS, st.booleans()), min_size=1, max_size=4
)
RULES = st.lists(st.sampled_from(["Edit(a)", "Edit(src/**)", "Edit(./**)", "Edit(.env)", "Bash", "*"]), max_size=3)
STRICTNESS = {"deny": 0, "drop": 0, "ask": 1, "allow": 2}


@given(
    st.sampled_from(list(Mode)), RULES, RULES, RULES, FILES, st.sampled_from(["Edit(a)", "Edit(src/b)", "Edit(./**)"])
)
@hypothesis_settings(max_examples=200)
def test_one_more_restriction_or_one_more_effect_never_keeps_more(
    tmp_path_factory: Any, mode: Mode, allow: list[str], ask: list[str], deny: list[str], listed: Any, more: str
):
    session = Session(workspace=tmp_path_factory.getbasetemp())
    files = [effect(session, action, path, recoverable=kept) for action, path, kept in listed]
    was = STRICTNESS[judged(session, *files, mode=mode, allow=allow, ask=ask, deny=deny)]
    assert STRICTNESS[judged(session, *files, mode=mode, allow=allow, ask=ask, deny=[*deny, more])] <= was
    assert STRICTNESS[judged(session, *files, mode=mode, allow=allow, ask=[*ask, more], deny=deny)] <= was
    fewer = STRICTNESS[judged(session, *files[1:], mode=mode, allow=allow, ask=ask, deny=deny)] if files[1:] else 2
    assert was <= fewer
