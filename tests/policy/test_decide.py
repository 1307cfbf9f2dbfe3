"""Deny beats ask beats allow; modes; the order of all of it; and the laws that hold whatever the rules (P4, S3)."""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.needs import slow
from tests.policy.commands.test_analyse import corpus
from tests.policy.stand_in import bash, invoke, on_command, policy, verdict

from ferrule import Mode, Runtime, Session, tool
from ferrule.builtin.edit import edit, write
from ferrule.builtin.read import read
from ferrule.pipeline.stages import Verdict
from ferrule.policy.rules import Source, SourceKind, parse_rule


def make(name: str, **options: Any) -> Any:
    async def body() -> str:
        return "ran"

    return tool(body, name=name, **options)


READ = make("read", kind="readonly")
WRITE = make("write", kind="write")
EXEC = make("execute", kind="execute")
DANGER = make("danger", kind="readonly", dangerous=True)
GUARDED = make("guarded", kind="readonly", requires_permission=True)
ODD = make("odd", kind="readonly", read_only=False)
PLAIN = [READ, WRITE, EXEC, DANGER, GUARDED, ODD]


@pytest.mark.parametrize(
    ("mode", "lists", "expected"),
    [
        ("default", {}, "allow ask ask ask ask ask"),
        ("plan", {}, "allow deny deny ask ask deny"),
        ("accept-edits", {}, "allow allow ask ask ask ask"),
        ("dont-ask", {}, "allow deny deny deny deny deny"),
        ("bypass", {}, "allow allow allow allow allow allow"),
        ("default", {"allow": ["write", "dan*"]}, "allow allow ask allow ask ask"),
        ("plan", {"allow": ["*"]}, "allow deny deny allow allow deny"),
        ("bypass", {"allow": ["*"], "deny": ["odd"]}, "allow allow allow allow allow deny"),
        ("default", {"deny": ["read", "w*"]}, "deny deny ask ask ask ask"),
    ],
)
def test_tools_without_touches_are_decided_by_their_kind(
    session: Session, mode: str, lists: dict[str, Any], expected: str
):
    """P4: deny beats all, the mode comes next, then allow, then the kind."""
    assert " ".join(verdict(policy(mode=mode, **lists), session, one) for one in PLAIN) == expected


def test_a_denial_names_the_rule_and_where_it_stands(session: Session):
    source = Source(SourceKind.PROJECT, session.workspace / "ferrule.toml")
    rules = policy(rules=[parse_rule("Bash(rm *)", Verdict.DENY, source)])
    result = asyncio.run(Runtime([bash], policy=rules, session=session).run("Bash", {"command": "ls; rm x"}))
    assert result.llm_content == snapshot(
        """\
Error (permission_error): `Bash` was not run: `Bash(rm *)` from the project's `ferrule.toml` denies `rm x`.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
"""
    )


@pytest.mark.parametrize(
    "command", ["git commit -m x > 'b c.txt'", """echo "it's" $X""", "sh -c 'touch x'", "git commit"]
)
def test_the_rule_that_would_help_can_be_pasted_into_a_shell(session: Session, command: str) -> None:
    rules = policy(own_files=[session.workspace / "settings.toml"])
    runtime = Runtime([bash], policy=rules, session=session)
    result = asyncio.run(runtime.run("Bash", {"command": command, "terminal": True}))
    found = re.search(r"allow it: `(--allow .*)` on the command line", result.llm_content)
    assert found is not None, result.llm_content
    option, rule = shlex.split(found[1])
    assert option == "--allow"
    assert verdict(policy(allow=[rule]), session, bash, command=command, terminal=True) == "allow"


def test_where_there_is_nobody_to_ask_the_rule_that_would_help_is_named(session: Session):
    runtime = Runtime([bash], policy=policy(), session=session)
    call = {"command": "git commit -m x", "terminal": True}
    assert asyncio.run(runtime.run("Bash", call)).llm_content == snapshot(
        """\
Error (permission_error): `Bash` was not run: no rule allows `git commit -m x`, and approval isn't available here.

Suggestion: The program can give its Runtime an `ask` function, or policy=RulePolicy(allow=['Bash(git commit -m x)']).\
"""
    )
    assert asyncio.run(runtime.run("Bash", {"command": "rm -rf x"})).llm_content == snapshot(
        """\
Error (permission_error): `Bash` was not run: `rm -rf x` is dangerous: it removes folders and everything in them, without asking, and approval isn't available here.

Suggestion: No rule can pre-approve this. The program can give its Runtime an `ask` function.\
"""  # noqa: E501
    )


@pytest.mark.parametrize(
    "lists", [{"allow": ["Bash(rm *)"]}, {"allow": ["Bash"]}, {"allow": ["*"]}, {"mode": "bypass"}]
)
def test_a_dangerous_command_asks_even_under_an_allow_rule(session: Session, lists: dict[str, Any]):
    """S2."""
    assert on_command(policy(**lists), session, "rm -rf x") == "ask"
    assert on_command(policy(**lists, dangerous="allow"), session, "rm -rf x") == "allow"


@pytest.mark.parametrize("lists", [{}, slow({"allow": ["Bash"]}), slow({"mode": "accept-edits"}), {"mode": "bypass"}])
def test_every_dangerous_command_of_the_corpus_asks_before_it_runs(session: Session, lists: dict[str, Any]):
    """S2: 0 are let through."""
    rules = policy(**lists)
    assert [command for command in corpus("dangerous") if on_command(rules, session, command) != "ask"] == []
    for mode in ("plan", "dont-ask"):
        refused = policy(mode=mode)
        assert [command for command in corpus("dangerous") if on_command(refused, session, command) != "deny"] == []


@pytest.mark.parametrize("mode", ["default", "plan", "accept-edits", "dont-ask"])
def test_no_everyday_command_of_the_corpus_asks_before_it_runs(session: Session, mode: str):
    rules = policy(mode=mode)
    assert [command for command in corpus("everyday") if on_command(rules, session, command) != "try"] == []


def test_the_switch_for_dangerous_commands_leaves_all_other_questions(session: Session):
    """P4: `dangerous_cmd` of A."""
    off = policy(dangerous="allow")
    assert on_command(off, session, "rm -rf x") == "try"
    assert verdict(off, session, bash, command="rm -rf x", terminal=True) == "ask"
    assert on_command(policy(dangerous="allow", deny=["Bash(rm *)"]), session, "rm -rf x") == "deny"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("default", "try try ask ask allow ask"),
        ("plan", "try try try deny allow deny"),
        ("accept-edits", "try try ask ask allow allow"),
        ("dont-ask", "try try try deny allow deny"),
        ("bypass", "allow allow allow ask allow allow"),
    ],
)
def test_what_each_mode_lets_run(session: Session, mode: str, expected: str):
    rules = policy(mode=mode)
    commands = [on_command(rules, session, command) for command in ("ls", "npm test", "git push", "rm -rf x")]
    files = [
        verdict(rules, session, read, file_path="a"),
        verdict(rules, session, write, file_path="a", content=""),
    ]
    assert " ".join([*commands, *files]) == expected


def test_an_ask_rule_asks_about_what_would_run(session: Session):
    rules = policy(ask=["Bash(git diff *)", "read"], allow=["Bash", "read"])
    assert on_command(rules, session, "git diff HEAD") == "ask"
    assert on_command(rules, session, "git log") == "allow"
    assert on_command(policy(ask=["Bash(git diff *)"], mode="plan"), session, "git diff") == "deny"
    assert verdict(rules, session, READ) == "ask"
    assert verdict(policy(ask=["read"], mode="dont-ask"), session, READ) == "deny"
    assert verdict(policy(ask=["read"], mode="bypass"), session, READ) == "ask"


def test_a_call_runs_and_is_refused_through_the_real_pipeline(session: Session):
    """P4, with the real tools."""
    (session.workspace / ".key").write_text("secret")
    (session.workspace / "link").symlink_to(".key")
    runtime = Runtime([read, edit, bash], policy=policy(deny=["Read(.key)"]), session=session)
    for tool_name, arguments in (
        ("Read", {"file_path": ".key"}),
        ("Read", {"file_path": "link"}),
        ("Bash", {"command": "cat .key"}),
        ("Bash", {"command": "cat < link"}),
    ):
        result = asyncio.run(runtime.run(tool_name, arguments))
        assert result.error is not None
        assert "`Read(.key)`" in result.error.message
        assert "secret" not in result.llm_content


def test_the_way_of_most_calls_is_as_short_as_by_kind(session: Session):
    """Without rules a tool that touches nothing is decided without a look at anything else."""
    rules = policy()
    rules.judge = None  # type: ignore[method-assign, assignment]
    assert rules.decide(invoke(READ, session), session).verdict == "allow"


def test_a_tool_that_runs_commands_and_is_marked_dangerous_needs_its_name(session: Session):
    from ferrule import Touch

    @tool(kind="execute", dangerous=True, touches=(Touch("command:ls", write=True),))
    def launch() -> None: ...

    assert verdict(policy(), session, launch) == "ask"
    assert verdict(policy(allow=["launch"]), session, launch) == "allow"


# Laws

COMMANDS = ["ls", "cat .env", "npm test", "mkdir a", "ls > a", "rm -rf a", "git commit -m x && ls", "cat $X", "ls 'x"]
RULES = [
    "Bash", "Bash(ls *)", "Bash(npm *)", "Bash(rm *)", "Bash(git commit *)", "Bash(mkdir:*)", "Read(.env)", "Read(**)",
    "Edit(a)", "Edit(./**)", "Edit", "Write", "Read", "*", "WebFetch(domain:a.org)",
]  # fmt: skip
some_rules = st.lists(st.sampled_from(RULES), max_size=4)
calls = st.one_of(
    st.sampled_from(COMMANDS).map(lambda command: (bash, {"command": command})),
    st.sampled_from(["a", ".env", "sub/b", "../c", "ferrule.toml"]).map(
        lambda path: (write, {"file_path": path, "content": ""})
    ),
    st.sampled_from(["a", ".env", "sub/b"]).map(lambda path: (read, {"file_path": path})),
)
modes = st.sampled_from(list(Mode))
STRICTNESS = {"deny": 0, "ask": 1, "try": 1.5, "allow": 2}
on_real_folders = hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)


@given(modes, some_rules, some_rules, some_rules, calls, st.booleans(), st.sampled_from(["ask", "allow"]))
@on_real_folders
def test_what_a_deny_rule_is_about_never_runs(
    session: Session,
    mode: Mode,
    allow: list[str],
    ask: list[str],
    deny: list[str],
    call: Any,
    granted: bool,
    dangerous: str,
):
    """Nothing overrides a denial: no allow rule, no grant, no mode."""
    one, arguments = call
    alone = policy(deny=deny).judge(invoke(one, session, **arguments), session)
    rules = policy(mode=mode, allow=allow, ask=ask, deny=deny, dangerous=dangerous)
    if granted:
        rules.remember(invoke(one, session, **arguments), session)
    if alone.by is not None and alone.by.verdict is Verdict.DENY:
        assert verdict(rules, session, one, **arguments) == "deny"


@given(modes, some_rules, some_rules, some_rules, calls, st.sampled_from(RULES), st.sampled_from(["ask", "deny"]))
@on_real_folders
def test_one_more_deny_or_ask_rule_never_lets_more_run(
    session: Session, mode: Mode, allow: list[str], ask: list[str], deny: list[str], call: Any, more: str, where: str
):
    one, arguments = call
    before = policy(mode=mode, allow=allow, ask=ask, deny=deny)
    lists = {"ask": [*ask, more], "deny": deny} if where == "ask" else {"ask": ask, "deny": [*deny, more]}
    after = policy(mode=mode, allow=allow, **lists)
    was, now = (verdict(rules, session, one, **arguments) for rules in (before, after))
    assert STRICTNESS[now] <= STRICTNESS[was]


@given(some_rules, some_rules, some_rules, calls)
@on_real_folders
def test_a_looser_mode_runs_all_that_a_stricter_one_runs(
    session: Session, allow: list[str], ask: list[str], deny: list[str], call: Any
):
    one, arguments = call
    order = (Mode.PLAN, Mode.DONT_ASK, Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS)
    found = [verdict(policy(mode=mode, allow=allow, ask=ask, deny=deny), session, one, **arguments) for mode in order]
    runs = [one == "allow" for one in found]
    assert runs == sorted(runs)


@given(some_rules, some_rules, calls, st.sampled_from(RULES))
@on_real_folders
def test_one_more_allow_rule_never_lets_less_run(
    session: Session, allow: list[str], deny: list[str], call: Any, more: str
):
    one, arguments = call
    was = verdict(policy(allow=allow, deny=deny), session, one, **arguments)
    now = verdict(policy(allow=[*allow, more], deny=deny), session, one, **arguments)
    assert STRICTNESS[now] >= STRICTNESS[was]


def test_a_restriction_that_comes_later_holds_from_the_next_call_on(session: Session) -> None:
    @tool(kind="readonly")
    def look() -> str:
        """Look. Use this to test."""
        return "seen"

    rules = policy(allow=["*"])
    assert verdict(rules, session, look) == "allow"
    rules.restrict(ask=["look"])
    assert verdict(rules, session, look) == "ask"
    rules.restrict(deny=["look"])
    assert verdict(rules, session, look) == "deny"
