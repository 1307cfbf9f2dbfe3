"""A misspelt name never restricts nothing (S1, S3): it is an error, and what may still come is held to the name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from ferrule import Registry, Runtime, tool
from ferrule.app.assistant import build_assistant
from ferrule.app.build import App, build_remote, build_tools
from ferrule.app.settings import (
    AssistantSettings,
    AuditSettings,
    HookSettings,
    RemoteSettings,
    Settings,
    SettingsError,
    ToolSettings,
)
from ferrule.core.nearest import UnknownNameError, check_names, is_named
from ferrule.pipeline.hooks import Hook, HookReply
from ferrule.policy import RulePolicy
from ferrule.testing import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.tool import Tool


def named(name: str, **options: Any) -> Tool[Any]:
    def give() -> str:
        return ""

    return tool(give, name=name, kind="readonly", description="Give nothing.", **options)


def settings(**given: Any) -> Settings:
    plain: dict[str, Any] = {"tools": ToolSettings(plugins=False, drafts=False), "audit": AuditSettings(enabled=False)}
    return Settings(**(plain | given))


SLIPS = {"Bsh": "Bash", "bash": "Bash", "Raed": "Read", "readfile": "readFile", "web_fetch": "WebFetch"}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("place", ["tools.disabled", "hooks.tools", "assistant.tools"])
def test_a_misspelt_tool_in_a_setting_is_an_error_with_the_closest(place: str, slip: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "tools.disabled": {"tools": ToolSettings(plugins=False, drafts=False, disabled=["Write", slip])},
        "hooks.tools": {"hooks": [HookSettings("before", ["true"], tools=[slip])]},
        "assistant.tools": {"assistant": AssistantSettings(tools=["Write", slip], save=False)},
    }[place]
    with pytest.raises(SettingsError, match=f"`{place}`: there is no tool `{slip}`; did you mean `{SLIPS[slip]}`"):
        build_assistant(App(settings(**given), tmp_path), ScriptedModel([]))


@pytest.mark.parametrize("place", ["tools.disabled", "assistant.tools"])
def test_a_name_like_no_tools_is_said(place: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "tools.disabled": {"tools": ToolSettings(plugins=False, drafts=False, disabled=["launch_rocket"])},
        "assistant.tools": {"assistant": AssistantSettings(tools=["launch_rocket"], save=False)},
    }[place]
    app = App(settings(**given), tmp_path)
    build_assistant(app, ScriptedModel([]))
    assert f"`{place}` names `launch_rocket`, which no tool here is called." in app.notes


def test_what_is_switched_off_stays_so_whenever_it_comes(tmp_path: Path) -> None:
    off = ["TodoWrite", "Task", "mcp__late__delete", "mcp__whole", "remove_*", "say"]
    given = settings(tools=ToolSettings(plugins=False, drafts=False, disabled=off))
    given.assistant.save = False
    app = App(given, tmp_path)
    build_assistant(app, ScriptedModel([]))
    registry = app.tools.registry
    for name in ("mcp__late__delete", "mcp__late__read", "mcp__whole__read", "mcp__wholes__read", "remove_all"):
        registry.register(named(name))
    registry.register(named("speak"), aliases=["say"])
    shown = set(registry.names())
    assert not shown & {"TodoWrite", "Task", "mcp__late__delete", "mcp__whole__read", "remove_all", "speak"}
    assert shown >= {"mcp__late__read", "mcp__wholes__read"}
    registry.unregister("remove_all")
    registry.register(named("remove_all", version="2.0"))
    assert "remove_all" not in registry.names()


@pytest.mark.parametrize("view", ["only", "without"])
def test_a_view_refuses_a_misspelt_name(view: str) -> None:
    registry = Registry([named("delete_file"), named("read_file")])
    with pytest.raises(UnknownNameError, match="there is no tool `delet_file`; did you mean `delete_file`"):
        getattr(registry, view)(["delet_file"])
    with pytest.raises(UnknownNameError, match="did you mean `fs_read_file`"):
        getattr(registry.prefixed("fs_"), view)(["read_file"])
    with pytest.raises(UnknownNameError, match="did you mean `all`"):
        registry.only("All")


def test_a_view_may_name_what_it_does_not_show() -> None:
    registry = Registry([named("read_file"), tool(name="write_file", kind="write", description="x")(lambda: None)])
    assert registry.read_only().without(["write_file"]).names() == ["read_file"]
    registry.disable("read_file")
    assert registry.only(["read_file"]).names() == []


def test_a_view_holds_for_tools_and_aliases_that_come_later(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry([named("read")])
    with caplog.at_level(logging.WARNING, "ferrule.registry"):
        without, only = registry.without("erase"), registry.only(["erase", "mcp__late__*"])
    assert "erase" in caplog.text
    registry.register(named("remove"), aliases=["erase"])
    registry.register(named("mcp__late__go"))
    assert without.names() == ["read", "mcp__late__go"]
    assert only.names() == ["remove", "mcp__late__go"]


def test_a_mode_is_one_that_there_is() -> None:
    for wrong in ("Plan", "PLAN", "plna", "read-only", ""):
        with pytest.raises(ValueError, match="There is no mode"):
            Registry().for_mode(wrong)
        with pytest.raises(ValueError, match="There is no mode"):
            RulePolicy(mode=wrong)
    with pytest.raises(ValueError, match="Did you mean 'plan'"):
        Registry().for_mode("Plan")


def test_a_kind_of_a_pool_is_one_that_there_is() -> None:
    with pytest.raises(SettingsError, match="`kind:exec` is no kind of tools; kinds are readonly, write, execute"):
        build_remote(settings(remote=RemoteSettings(pools={"gpu": ["kind:exec"]})))


def test_a_hook_can_name_a_whole_server() -> None:
    hook = Hook("no", before=lambda *_: HookReply(deny="no"), tools=("mcp__files",))
    runtime = Runtime([named("mcp__files__read"), named("mcp__filesystem__read")], hooks=[hook])
    assert not runtime.run_sync("mcp__files__read").success
    assert runtime.run_sync("mcp__filesystem__read").success


def test_a_servers_tools_are_compared_with_its_own_alone() -> None:
    """Another server may come, and what it offers is often called the same."""
    known = ["mcp__github__create_issue", "Read"]
    assert check_names(["mcp__gitlab__create_issue", "mcp__gitlab", "mcp__github", "mcp__*"], known) == []
    with pytest.raises(UnknownNameError, match="did you mean `mcp__github__create_issue`"):
        check_names(["mcp__github__creat_issue"], known)
    assert check_names(["mcp__github__push", "xyzzy", "xyz*"], known) == ["mcp__github__push", "xyzzy", "xyz*"]
    assert check_names(["Raed"], known, complete=False) == ["Raed"]


def test_a_long_list_of_unknown_names_is_refused_and_takes_no_time() -> None:
    with pytest.raises(UnknownNameError, match=r"more than 200 names are of no tool: `zzz0`, .* `zzz9` …"):
        check_names([f"zzz{number}" for number in range(100_000)], ["Read"] * 5_000)


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [("Read", "Read", True), ("Read", "read", False), ("ReadAll", "Read*", True), ("mcp__a__b", "mcp__a", True),
     ("mcp__ab__c", "mcp__a", False), ("Reads", "Read", False), ("a_b", "a?b", False)],
)  # fmt: skip
def test_names_and_patterns(name: str, pattern: str, fits: bool) -> None:
    assert is_named(name, [pattern]) is fits


def test_the_tools_of_a_good_setting_bring_no_words(tmp_path: Path) -> None:
    off = ["Bash", "WebFetch", "Task", "mcp__none_yet__x"]
    tools = build_tools(settings(tools=ToolSettings(plugins=False, drafts=False, disabled=off)), tmp_path)
    assert not [note for note in tools.notes if "tools.disabled" in note]


def test_all_is_a_word_and_a_slip_of_it_an_error(tmp_path: Path) -> None:
    assert build_tools(settings(assistant=AssistantSettings(tools=["all"])), tmp_path).notes == []
    with pytest.raises(SettingsError, match="did you mean `all`"):
        build_tools(settings(assistant=AssistantSettings(tools=["All"])), tmp_path)
