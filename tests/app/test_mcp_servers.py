"""Which servers there are, and which of them may be started: a workspace's wait for the person's word."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.app.build import App
from ferrule.app.mcp_servers import (
    KnownServers,
    known_servers,
    trust_records,
    trust_server,
    without_wrong_servers,
)
from ferrule.app.server_files import ServerFile
from ferrule.app.settings import SettingsError, load_settings
from ferrule.core.call import RawCall
from ferrule.core.result import ToolResult

PLAIN = Path(__file__).parents[1] / "mcp_client" / "plain_peer.py"


class Place:
    """A person's settings and a workspace."""

    def __init__(self, folder: Path) -> None:
        self.person = folder / "person.toml"
        self.person.touch()
        self.workspace = (folder / "workspace").resolve()
        self.workspace.mkdir()
        self.notes = folder / "notes"
        self.command = [sys.executable, "-I", str(PLAIN), "good", str(self.notes)]

    def write_json(self, *names: str) -> None:
        servers = {name: {"command": self.command[0], "args": self.command[1:]} for name in names}
        (self.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def table(self, name: str) -> str:
        return f"[mcp_servers.{name}]\ncommand = {json.dumps(self.command[0])}\nargs = {json.dumps(self.command[1:])}\n"

    def known(self) -> KnownServers:
        return known_servers(load_settings(self.workspace).settings, self.workspace)

    def trusted(self) -> dict[str, bool]:
        return {one.config.name: one.trusted for one in self.known().servers}

    @property
    def started(self) -> bool:
        return self.notes.exists()

    async def call(self, tool: str) -> ToolResult:
        loaded = load_settings(self.workspace, {"permissions": {"allow": ["mcp__*"]}})
        async with App(loaded.settings, self.workspace, single_call=True) as app:
            if app.tools.servers is not None:
                await app.tools.servers.start_for(tool)
            return await app.runtime.run(RawCall(tool, {"text": "hello"}))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path)
    monkeypatch.setenv("FERRULE_CONFIG", str(found.person))
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    return found


async def test_the_persons_own_server_is_used(place: Place) -> None:
    place.person.write_text(place.table("mine"))
    assert (await place.call("mcp__mine__echo")).llm_content == "hello"


async def test_a_workspaces_server_is_never_started_without_leave(place: Place) -> None:
    place.write_json("theirs")
    result = await place.call("mcp__theirs__echo")
    assert not result.success
    assert not place.started
    settings = load_settings(place.workspace).settings
    assert App(settings, place.workspace).notes == snapshot(
        [
            "This workspace brings MCP servers that you have not trusted yet, and they are not started: `theirs`. `ferrule mcp list` shows them, and `ferrule mcp trust theirs` lets one start."  # noqa: E501
        ]
    )


async def test_with_leave_it_is_started_and_a_changed_command_asks_again(place: Place) -> None:
    place.write_json("theirs")
    (known,) = place.known().servers
    ServerFile(place.person).trust(known.config.fingerprint)
    assert (await place.call("mcp__theirs__echo")).llm_content == "hello"
    place.command.append("--more")
    place.write_json("theirs")
    assert place.trusted() == {"theirs": False}


def test_leave_is_for_one_workspace(place: Place, tmp_path: Path) -> None:
    place.write_json("theirs")
    (known,) = place.known().servers
    ServerFile(place.person).trust(known.config.fingerprint)
    other = tmp_path / "other"
    other.mkdir()
    (other / ".mcp.json").write_text((place.workspace / ".mcp.json").read_text())
    assert [one.trusted for one in known_servers(load_settings(other).settings, other).servers] == [False]


def test_a_trusted_folder_is_trusted_with_its_servers(place: Place) -> None:
    place.write_json("theirs")
    (place.workspace / "ferrule.toml").write_text(place.table("also"))
    assert place.trusted() == {"also": False, "theirs": False}
    place.person.write_text(f"trusted_folders = [{json.dumps(str(place.workspace))}]\n")
    assert place.trusted() == {"also": True, "theirs": True}


def test_nobody_takes_the_name_of_the_persons_server(place: Place) -> None:
    place.person.write_text(place.table("mine"))
    (place.workspace / "ferrule.toml").write_text('[mcp_servers.mine]\ncommand = "evil"\n')
    place.write_json("mine")
    loaded = load_settings(place.workspace)
    assert loaded.set_aside == ["mcp_servers.mine"]
    (known,) = place.known().servers
    assert (known.config.command, known.trusted) == (tuple(place.command), True)
    assert "your settings have a server of that name" in place.known().left_out[0]


def test_a_workspace_cannot_trust_itself(place: Place) -> None:
    place.write_json("theirs")
    (known,) = place.known().servers
    (place.workspace / "ferrule.toml").write_text(f'trusted_mcp_servers = ["{known.config.fingerprint}"]\n')
    assert place.trusted() == {"theirs": False}
    assert load_settings(place.workspace).set_aside == ["trusted_mcp_servers"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[mcp_servers.x]\n", "neither `command` nor `url`"),
        ('[mcp_servers.x]\ncomand = "a"\n', "there is no setting `mcp_servers.x.comand`. Did you mean `command`?"),
        ('[mcp_servers.x]\ncommand = "a"\nargs = "b"\n', "`mcp_servers.x.args`: Input should be a valid list"),
        ('[mcp_servers.x]\ncommand = "a"\ntimeout = 0\n', "`timeout` is a number of seconds above 0"),
    ],
)
def test_settings_that_cannot_work_are_said(place: Place, written: str, said: str) -> None:
    place.person.write_text(written)
    with pytest.raises(SettingsError) as raised:
        place.known()
    assert said in str(raised.value)
    assert str(place.person) in str(raised.value)


def test_a_server_that_cannot_work_is_told_apart_from_those_that_can(place: Place) -> None:
    place.person.write_text(f'{place.table("mine")}[mcp_servers.both]\ncommand = "a"\nurl = "https://h"\n')
    settings, wrong = without_wrong_servers(load_settings(place.workspace).settings)
    assert list(settings.mcp_servers) == ["mine"]
    (said,) = wrong
    assert said.startswith(f"{place.person}: `mcp_servers`: `both` has both")


def test_trusting_one_keeps_what_it_was(place: Place) -> None:
    place.write_json("theirs")
    (known,) = place.known().servers
    trust_server(known.config)
    (known,) = place.known().servers
    record = trust_records().of(known.config)
    assert known.trusted
    assert record is not None
    assert record.changes_to(known.config) == []


def test_without_servers_nothing_is_imported(place: Place) -> None:
    import subprocess

    script = (
        "import sys\nfrom pathlib import Path\nfrom ferrule.app.settings import Settings\n"
        "from ferrule.app.build import build_tools\n"
        "build_tools(Settings(), Path('.'))\n"
        "print([name for name in sys.modules if name.startswith(('mcp', 'ferrule.mcp_client'))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=place.workspace
    )
    assert done.stdout.strip() == "[]"


async def test_known_tools_need_no_server_and_no_sdk(place: Place) -> None:
    import subprocess

    place.person.write_text(place.table("mine"))
    await place.call("mcp__mine__echo")
    script = (
        "import sys\nfrom pathlib import Path\nfrom ferrule.app.settings import load_settings\n"
        "from ferrule.app.build import build_tools\n"
        "tools = build_tools(load_settings(Path('.')).settings, Path('.').resolve())\n"
        "print('mcp__mine__echo' in tools.registry, 'mcp' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=place.workspace
    )
    assert done.stdout.split() == ["True", "False"]


async def test_an_app_starts_the_servers_whose_tools_nobody_knows(place: Place) -> None:
    from tests.mcp_client.peers import until

    place.person.write_text(place.table("mine"))
    async with App(load_settings(place.workspace).settings, place.workspace) as app:
        await until(lambda: "mcp__mine__echo" in app.tools.registry)
    assert place.started
