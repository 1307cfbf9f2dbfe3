"""What «always» remembers: it covers the same call again, and no more than it says (P4, T6)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.policy.stand_in import bash, invoke, on_command, policy, verdict

from ferrule import Runtime, Session, Touch, tool
from ferrule.builtin.edit import write
from ferrule.builtin.file_search import file_search
from ferrule.builtin.read import read
from ferrule.policy.decide import RulePolicy
from ferrule.policy.rule_file import RuleChecks
from ferrule.policy.rules import parse_rule
from ferrule.testing import ScriptedAsker


def offered(session: Session, command: str, **lists: Any) -> Any:
    return policy(**lists).offer(invoke(bash, session, command=command), session)


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git commit -m 'a b'", "Bash(git commit *)"),
        ("npm run test -- -x", "Bash(npm run test *)"),
        ("git commit -m x && npm run build", "Bash(git commit *), Bash(npm run build *)"),
        ("cd a && git commit -m x | tail -3", "Bash(git commit *)"),
        ("ls && git commit -m x", "Bash(ls *), Bash(git commit *)"),
        ("mkdir a", "Bash(mkdir *)"),
        ("python -c 'print(1)'", "Bash(python -c 'print(1)')"),
        ("bash x.sh", "Bash(bash x.sh)"),
        ("npx *", r"Bash(npx \*)"),
        ("ssh host ls", "Bash(ssh host ls)"),
        ("timeout 5 make", "Bash(timeout 5 make)"),
        ("X=1 make", "Bash(X=1 make)"),
        ("make *", r"Bash(make \*)"),
        ("ls > out.txt", "Bash(ls > out.txt)"),
        ("npm run test > out.txt", "Bash(npm run test > out.txt)"),
        ("git commit -m x && python y", "Bash(git commit -m x && python y)"),
        ("npm run $X", "Bash(npm run $X)"),
        ("echo 'unbalanced", "Bash(echo 'unbalanced)"),
    ],
)
def test_the_rule_that_is_offered(session: Session, command: str, rule: str):
    assert offered(session, command).rule == rule


def test_a_command_that_names_a_secret_offers_nothing(session: Session):
    """A rule for the command would not open the file."""
    (session.workspace / ".env").write_text("x")
    assert offered(session, "cat .env") is None


def test_it_comes_with_an_example_and_a_near_miss(session: Session):
    offer = offered(session, "git commit -m x")
    assert (offer.rule, offer.covers, offer.not_covers) == snapshot(
        ("Bash(git commit *)", "git commit --verbose", "git push")
    )


@pytest.mark.parametrize("lists", [{"ask": ["Bash(git *)"]}, {"deny": ["Bash(git *)"]}, {"mode": "plan"}])
def test_nothing_is_offered_where_no_grant_would_count(session: Session, lists: dict[str, Any]):
    assert offered(session, "git commit -m x", **lists) is None


def test_what_is_dangerous_cannot_be_saved(session: Session):
    """S2."""
    assert offered(session, "rm -rf x") is None
    with ScriptedAsker("always", "once") as person:
        runtime = Runtime([bash], policy=policy(), session=session, ask=person)
        for _ in range(2):
            assert asyncio.run(runtime.run("Bash", {"command": "rm -rf x"})).success
        assert [question.rule for question in person.questions] == ["", ""]


def test_a_write_offers_its_real_folder(session: Session):
    """T6."""
    (session.workspace / "real").mkdir()
    (session.workspace / "link").symlink_to("real")
    rules, root = policy(), os.path.realpath(session.workspace)
    invocation = invoke(write, session, file_path="link/a.txt", content="")
    offer = rules.offer(invocation, session)
    assert offer is not None
    assert offer.rule == f"Edit(/{root}/real/**)"
    assert (offer.covers, offer.not_covers) == (f"{root}/real/another-file", f"{root}/another-folder/file")
    rules.remember(invocation, session)
    assert verdict(rules, session, write, file_path="real/b.txt", content="") == "allow"
    assert verdict(rules, session, write, file_path="c.txt", content="") == "ask"
    assert verdict(rules, Session(workspace=session.workspace), write, file_path="real/b.txt", content="") == "ask"


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("mkdir a", "Bash(mkdir a)"),
        ("git commit -m x && npm run build", "Bash(git commit -m x && npm run build)"),
        ("npx *", r"Bash(npx \*)"),
    ],
)
def test_a_refusal_suggests_a_rule_for_this_very_command(session: Session, command: str, rule: str):
    """Whoever copies it allows no more than what was refused."""
    assert offered(session, command).exact == (rule,)
    assert verdict(policy(allow=[rule]), session, bash, command=command) == "allow"


def test_a_refusal_suggests_a_rule_for_this_file_or_folder_alone(session: Session):
    (session.workspace / "src").mkdir()
    root = os.path.realpath(session.workspace)
    replacing = {"pattern": "a", "replace_with": "b", "preview_only": False}
    for one, arguments, exact, always in (
        (write, {"file_path": "src/a.txt", "content": ""}, f"Edit(/{root}/src/a.txt)", f"Edit(/{root}/src/**)"),
        (file_search, replacing | {"path": "src"}, f"Edit(/{root}/src/**)", f"Edit(/{root}/src/**)"),
        (file_search, replacing, f"Edit(/{root}/**)", f"Edit(/{root}/**)"),
    ):
        offer = policy().offer(invoke(one, session, **arguments), session)
        assert offer is not None
        assert (offer.exact, offer.rules) == ((exact,), (always,))
        assert verdict(policy(allow=[exact]), session, one, **arguments) == "allow"


def test_a_refusal_suggests_what_the_tool_says_of_this_call(session: Session):
    """T6: "always" may mean more, as the tool says."""

    @tool(kind="write", signature="{place} {name}", always_rule="plant:{place}")
    def plant(place: str, name: str) -> str:
        return name

    runtime = Runtime([plant], policy=policy(), session=session)
    result = asyncio.run(runtime.run("plant", {"place": "bed", "name": "it's a rose"}))
    assert result.error is not None
    assert """allow=["plant(bed it's a rose)"]""" in str(result.error.suggestion)
    rules = policy(allow=["plant(bed it's a rose)"])
    assert verdict(rules, session, plant, place="bed", name="it's a rose") == "allow"
    assert verdict(rules, session, plant, place="bed", name="a tulip") == "ask"


def test_a_file_that_is_looked_after_offers_itself_alone(session: Session):
    root = os.path.realpath(session.workspace)
    hook = policy(mode="accept-edits").offer(invoke(write, session, file_path=".git/hooks/x", content=""), session)
    secret = policy().offer(invoke(read, session, file_path=".env"), session)
    assert hook is not None
    assert secret is not None
    assert (hook.rule, secret.rule) == (f"Edit(/{root}/.git/hooks/x)", f"Read(/{root}/.env)")


def test_any_other_tool_offers_its_name_and_is_remembered_itself(session: Session):
    def make() -> Any:
        @tool(kind="execute", name="deploy")
        def deploy() -> None: ...

        return deploy

    first, second, rules = make(), make(), policy()
    offer = rules.offer(invoke(first, session), session)
    assert offer is not None
    assert offer.rule == "deploy"
    rules.remember(invoke(first, session), session)
    assert verdict(rules, session, first) == "allow"
    assert verdict(rules, session, second) == "ask", "one that takes its name is another tool"


def test_a_tools_own_always_rule_is_kept(session: Session):
    """T6."""

    @tool(kind="write", always_rule=lambda params: f"save:{params.kind}")
    def save(kind: str) -> None: ...

    rules = policy()
    offer = rules.offer(invoke(save, session, kind="a"), session)
    assert offer is not None
    assert offer.rule == "save:a"
    rules.remember(invoke(save, session, kind="a"), session)
    assert (verdict(rules, session, save, kind="a"), verdict(rules, session, save, kind="b")) == ("allow", "ask")


def test_a_fetch_offers_its_host(session: Session):
    @tool(name="WebFetch", kind="execute", touches=lambda params: [Touch(f"host:{params.host}")])
    def fetch(host: str) -> None: ...

    rules = policy()
    rules.remember(invoke(fetch, session, host="example.org"), session)
    assert verdict(rules, session, fetch, host="example.org") == "allow"
    assert verdict(rules, session, fetch, host="www.example.org") == "ask"


def test_an_always_counts_for_the_rest_of_the_session(session: Session):
    with ScriptedAsker("always", "once") as person:
        runtime = Runtime([bash], policy=policy(), session=session, ask=person)
        for command in ("git commit -m a", "git commit --amend", "git push"):
            assert asyncio.run(runtime.run("Bash", {"command": command, "terminal": True})).success
        assert [question.rule for question in person.questions] == ["Bash(git commit *)", "Bash(git push)"]
        assert person.questions[0].not_covers == "git push"


WORDS = st.sampled_from(
    [
        "git",
        "commit",
        "npm",
        "run",
        "test",
        "build",
        "python",
        "-c",
        "make",
        "mkdir",
        "ls",
        "cat",
        ">",
        "|",
        "&&",
        ";",
        "a",
        "'b",
        "c'",
        "$X",
        "~/x",
        "*",
        "\\",
        "-rf",
        "sudo",
        "nohup",
        "ssh",
        "rm",
        "x/y",
    ]
)


@given(st.lists(WORDS, min_size=1, max_size=7).map(" ".join))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
def test_the_saved_rule_covers_the_same_command_again(session: Session, command: str):
    """The law of «always», in the session and when it is saved to a file."""
    rules = policy()
    if on_command(rules, session, command) == "allow":
        return
    offer = rules.offer(invoke(bash, session, command=command), session)
    if offer is None:
        assert rules.judge(invoke(bash, session, command=command), session).can_be_always is False
        return
    rules.remember(invoke(bash, session, command=command), session)
    assert on_command(rules, session, command) == "allow"
    granted = [rule.text for rule in rules._granted[session.id]]
    saved = RulePolicy([parse_rule(text) for text in granted])
    assert on_command(saved, session, command) == "allow"
    assert on_command(saved, session, offer.covers) == "allow"
    checks = RuleChecks(session.workspace)
    assert not any(checks.fits(rule, offer.not_covers) for rule in saved.allow)


def test_an_always_for_one_secret_is_not_for_another(session: Session):
    rules = policy()
    rules.remember(invoke(read, session, file_path=".env"), session)
    assert verdict(rules, session, read, file_path=".env") == "allow"
    assert verdict(rules, session, read, file_path="~/.ssh/id_rsa") == "ask"
    assert verdict(rules, session, read, file_path="sub/.env") == "ask"


def test_an_always_for_a_tools_name_leaves_the_questions_about_paths(session: Session):
    @tool(kind="execute", touches=lambda params: [Touch(f"path:{params.path}", write=True)])
    def deploy(path: str) -> None: ...

    rules = policy()
    rules.remember(invoke(deploy, session, path="/a/b"), session)
    assert verdict(rules, session, deploy, path="/a/c") == "allow"
    assert verdict(rules, session, deploy, path="/etc/hosts") == "ask"
    rules.remember(invoke(deploy, session, path="/etc/hosts"), session)
    assert verdict(rules, session, deploy, path="/etc/hosts") == "allow"
    assert verdict(rules, session, deploy, path="/etc/passwd") == "ask"


@pytest.mark.parametrize("kind", ["write", "execute"])
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("mode", ["default", "accept-edits", "bypass"])
@pytest.mark.parametrize("asked_about", ["a.txt", ".git/hooks/x", "/etc/hosts"])
def test_no_always_for_a_tool_lets_it_write_another_guarded_place(
    session: Session, kind: str, elsewhere: bool, mode: str, asked_about: str
):
    """P4: whatever a tool also writes, and in whatever mode it was remembered."""

    def touches(params: Any) -> list[Touch]:
        return [Touch(f"path:{params.path}", write=True), *([Touch("queue:jobs", write=True)] if elsewhere else [])]

    deploy, rules = _deploy(kind, touches), policy(mode=mode)
    rules.remember(invoke(deploy, session, path=asked_about), session)
    assert verdict(rules, session, deploy, path=asked_about) == "allow"
    for guarded in (".git/hooks/other", "/etc/passwd", ".vscode/tasks.json"):
        assert verdict(rules, session, deploy, path=guarded) == "ask", guarded


def _deploy(kind: Any, touches: Any) -> Any:
    @tool(kind=kind, touches=touches)
    def deploy(path: str) -> None: ...

    return deploy


def _writes(params: Any) -> list[Touch]:
    return [Touch(f"path:{params.path}", write=True)]


def test_an_always_for_a_guarded_place_is_for_this_tool_and_not_for_its_name(session: Session):
    first, second, rules = _deploy("execute", _writes), _deploy("execute", _writes), policy()
    offer = rules.offer(invoke(first, session, path="/etc/hosts"), session)
    assert offer is not None
    assert (offer.rule, offer.covers, offer.not_covers) == snapshot(
        ("deploy, Edit(//etc/hosts)", "/etc/hosts", "/etc/another-file")
    )
    rules.remember(invoke(first, session, path="/etc/hosts"), session)
    assert verdict(rules, session, first, path="/etc/hosts") == "allow"
    assert verdict(rules, session, second, path="/etc/hosts") == "ask", "one that takes its name is another tool"


@pytest.mark.parametrize("lists", [{"mode": "bypass"}, {"allow": ["deploy"]}], ids=["bypass", "allowed by name"])
def test_where_only_the_place_was_asked_about_only_the_place_is_granted(session: Session, lists: dict[str, Any]):
    deploy, rules = _deploy("execute", _writes), policy(**lists)
    offer = rules.offer(invoke(deploy, session, path="/etc/hosts"), session)
    assert offer is not None
    assert offer.rule == "Edit(//etc/hosts)"
    rules.remember(invoke(deploy, session, path="/etc/hosts"), session)
    assert verdict(rules, session, deploy, path="/etc/hosts") == "allow"
    assert verdict(rules, session, deploy, path="/etc/passwd") == "ask"
