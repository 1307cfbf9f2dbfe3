"""The sandbox and the hooks of the settings, as calls meet them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from ferrule.app.build import App, sandbox_choice
from ferrule.app.settings import AuditSettings, HookSettings, SandboxSettings, Settings, SettingsError, ToolSettings
from ferrule.builtin.session_shells import sandbox_of, work_profile
from ferrule.core.context import SandboxChoice
from ferrule.core.result import ToolResult
from ferrule.process.sandbox.sandbox import NoSandbox


def settings(sandbox: SandboxSettings | None = None, hooks: list[HookSettings] | None = None) -> Settings:
    return Settings(
        audit=AuditSettings(enabled=False),
        tools=ToolSettings(plugins=False),
        sandbox=sandbox or SandboxSettings(),
        hooks=hooks or [],
    )


def one_call(chosen: Settings, workspace: Path) -> ToolResult:
    async def go() -> ToolResult:
        async with App(chosen, workspace) as app:
            return await app.runtime.run("getCurrentDirectory")

    return asyncio.run(go())


def test_a_session_opens_up_what_the_person_set_and_nothing_else(tmp_path: Path) -> None:
    """S3."""
    plain = work_profile(App(settings(), tmp_path).runtime.session)
    assert (plain.hosts, plain.writable) == (None, (tmp_path.resolve(),))
    open_ = SandboxSettings(hosts=["example.org"], writable=[Path("../cache")])
    profile = work_profile(App(settings(open_), tmp_path).runtime.session)
    assert profile.hosts == ("example.org",)
    assert profile.writable == (tmp_path.resolve(), tmp_path / "../cache")


def test_no_hosts_are_no_network_and_not_any(tmp_path: Path) -> None:
    """S3: an empty list is never taken for «all»."""
    chosen = settings(SandboxSettings(hosts=[], writable=[Path("x")]))
    assert work_profile(App(chosen, tmp_path).runtime.session).hosts is None


def test_only_the_settings_turn_the_sandbox_off(tmp_path: Path) -> None:
    off = App(settings(SandboxSettings(enabled=False)), tmp_path).runtime.session
    assert isinstance(sandbox_of(off), NoSandbox)
    assert sandbox_choice(settings(), tmp_path) == SandboxChoice()


def test_a_host_that_is_none_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"`sandbox.hosts`: 'https://example.org/x' .*Write a host as `example.org`"
    ):
        App(settings(SandboxSettings(hosts=["https://example.org/x"])), tmp_path)


def test_a_hook_of_the_settings_is_asked(tmp_path: Path) -> None:
    refuses = HookSettings("before", ["sh", "-c", "echo not today >&2; exit 2"], tools=["getCurrent*"])
    result = one_call(settings(hooks=[refuses]), tmp_path)
    assert "the hook `sh` refused it: not today." in result.llm_content
    other = HookSettings("before", refuses.command, tools=["Bash", "mcp__*"])
    assert one_call(settings(hooks=[other]), tmp_path).success


@pytest.mark.parametrize("event", ["before", "after"])
def test_a_hook_whose_program_is_missing_refuses_every_call(tmp_path: Path, event: str) -> None:
    missing = HookSettings(event, ["/no/such/hook"])  # type: ignore[arg-type]
    result = one_call(settings(hooks=[missing]), tmp_path)
    assert not result.success
    assert "/no/such/hook could not be started: no such file or directory" in result.llm_content


def test_a_home_in_front_of_a_hook_is_the_persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "hook").write_text("#!/bin/sh\necho mine >&2; exit 2\n")
    (tmp_path / "hook").chmod(0o755)
    assert "refused it: mine." in one_call(settings(hooks=[HookSettings("before", ["~/hook"])]), tmp_path).llm_content


def test_a_program_that_runs_no_command_looks_for_no_sandbox(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom ferrule.app.build import App\n"
        "from ferrule.app.settings import AuditSettings, Settings\n"
        "async def go():\n    async with App(Settings(audit=AuditSettings(enabled=False)), Path('.')):\n        pass\n"
        "asyncio.run(go())\nprint('ferrule.process.sandbox.choose' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
