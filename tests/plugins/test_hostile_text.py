"""Whatever stands in a field from outside, a plugin gets exactly that text or is refused: never one more option, mount
or variable (R7, X1, M4).
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.core.errors import ToolError
from ferrule.mcp_client.server_config import ConfigProblem, ServerConfig, from_json
from ferrule.mcp_client.stdio_transport import CannotStart, end_program
from ferrule.plugins.isolated import server_of
from ferrule.plugins.lock import LockedPlugin, PluginGrants
from ferrule.plugins.manifest import Manifest, PluginError, read_manifest, read_server_json
from ferrule.process.references import MissingValueError
from ferrule.process.sandbox.places import system_places
from tests.needs import needs

from .hostile_text import CANARY, Received, received, started, texts

REFUSED = (PluginError, ConfigProblem, CannotStart, MissingValueError, ToolError)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    needs(shutil.which("bwrap"), "bubblewrap")
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CANARY", CANARY)
    (tmp_path / "workspace").mkdir()
    return tmp_path


def bundle(config: dict[str, Any], user_config: dict[str, Any]) -> Manifest:
    file = io.BytesIO()
    manifest = {"name": "odd", "version": "1", "server": {"type": "python", "mcp_config": config},
                "user_config": user_config}  # fmt: skip
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    file.seek(0)
    return read_manifest("odd.mcpb", file)


def installed(manifest: Manifest, **more: Any) -> LockedPlugin:
    plugin = LockedPlugin(manifest, "odd.mcpb", **more)
    plugin.home.mkdir(parents=True, exist_ok=True)
    (plugin.program_folder / "bundle").mkdir(parents=True, exist_ok=True)
    return plugin


def plugin_with(word: str, value: str, default: str, other: str, *, place: Path, **more: Any) -> ServerConfig:
    """A bundle with these texts in its command, its variables and the defaults of its settings."""
    wanted = {"a": {"type": "string", "default": default}, "b": {"type": "string", "default": other}}
    config = {"command": "python3", "args": ["-c", "0", word], "env": {"X": value, "Y": "${user_config.a}{CANARY}"}}
    return server_of(installed(bundle(config, wanted), **more), place / "workspace")


def expected(text: str, place: Path, **own: str) -> str:
    """What a text of a bundle means: each place once, and nothing that was filled in."""
    home = place / "data/plugins/odd"
    known = {"${HOME}": f"{home}/home", "${__dirname}": f"{home}/program/bundle", "${/}": "/", "${pathSeparator}": "/"}
    known |= {f"${{user_config.{name}}}": value for name, value in own.items()}
    made = ""
    while text:
        found = next((one for one in known if text.startswith(one)), None)
        made += known[found] if found else text[0]
        text = text[len(found) if found else 1 :]
    return made


def as_usual(place: Path, monkeypatch: pytest.MonkeyPatch) -> Received:
    return asyncio.run(received(plugin_with("w", "v", "d", "o", place=place), dict(os.environ), monkeypatch))


@quick
@given(word=texts, value=texts, default=texts, other=texts)
def test_a_bundle_gets_the_texts_that_it_declares_or_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, word: str, value: str, default: str, other: str
) -> None:
    usual = as_usual(place, monkeypatch)
    try:
        config = plugin_with(word, value, default, other, place=place)
        got = asyncio.run(received(config, dict(os.environ), monkeypatch))
    except REFUSED:
        return
    assert got.rest == usual.rest
    assert got.set_once
    assert got.variables.keys() == usual.variables.keys()
    assert got.variables["X"] == expected(value, place, a=default, b=other)
    assert got.variables["Y"] == f"{default}{{CANARY}}"
    assert got.command[:4] == [*usual.command[:3], expected(word, place, a=default, b=other)]
    assert CANARY not in "".join([*got.variables.values(), *got.command])


@quick
@given(data=st.data())
def test_what_a_user_sets_is_one_text_too(place: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject) -> None:
    setting, argument, secret = (data.draw(texts) for _ in range(3))
    usual = as_usual(place, monkeypatch)
    grants = PluginGrants(secrets=(f"S={secret.replace('${', '')}",))
    try:
        config = plugin_with(
            "w", "${user_config.a}", "d", "o", place=place, settings={"a": setting}, grants=grants,
            arguments=(argument.replace("${", "$ {"),),
        )  # fmt: skip
        got = asyncio.run(received(config, dict(os.environ), monkeypatch))
    except REFUSED:
        return
    assert got.rest == usual.rest
    assert got.variables.keys() == {*usual.variables, "S"}
    assert (got.variables["X"], got.variables["S"]) == (setting, secret.replace("${", ""))
    assert got.command[-1] == argument.replace("${", "$ {")
    assert CANARY not in "".join([*got.variables.values(), *got.command])


@quick
@given(word=texts, name=texts, value=texts, version=texts, identifier=texts)
def test_a_server_json_names_a_package_and_plain_texts(
    place: Path, word: str, name: str, value: str, version: str, identifier: str
) -> None:
    package = {
        "registryType": "pypi", "identifier": identifier or "x", "version": version or "1",
        "packageArguments": [{"type": "positional", "value": word}, {"type": "named", "name": name, "value": "v"}],
        "environmentVariables": [{"name": name or "N", "value": value}],
    }  # fmt: skip
    try:
        manifest = read_server_json({"name": "a/odd", "version": "1", "packages": [package]})
        config = server_of(installed(manifest), place / "workspace")
    except REFUSED:
        return
    assert "\0" not in "".join([*map(str, config.command), *config.env, *map(str, config.env.values())])
    assert not manifest.requirement.startswith("-")
    assert manifest.requirement.isprintable()
    assert manifest.requirement.split() == [manifest.requirement]


@quick
@given(command=texts, word=texts, name=texts, value=texts, folder=texts)
def test_the_settings_of_a_server_are_refused_with_the_field_named(
    command: str, word: str, name: str, value: str, folder: str
) -> None:
    table = {"command": command or "x", "args": [word], "env": {name or "N": value}, "cwd": folder}
    try:
        config = from_json("odd", table)
    except ConfigProblem as problem:
        said = str(problem)
        assert ("odd" in said, "\0" in said) == (True, False), said
        return
    assert "\0" not in "".join([command, word, name, value, folder])
    assert not any("=" in one for one in config.env)


@quick
@given(folders=st.lists(st.tuples(texts, st.booleans()), max_size=3))
def test_a_grant_mounts_what_it_names_or_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, folders: list[tuple[str, bool]]
) -> None:
    usual = as_usual(place, monkeypatch)
    granted = tuple(f"{text}{':write' if writes else ''}" for text, writes in folders)
    try:
        config = plugin_with("w", "v", "d", "o", place=place, grants=PluginGrants(folders=granted))
        got = asyncio.run(received(config, dict(os.environ), monkeypatch))
    except REFUSED:
        return
    workspace = os.path.realpath(place / "workspace")
    more = [one for one in got.rest if one not in usual.rest]
    assert got.variables.keys() == usual.variables.keys()
    assert all(one[0] in ("--bind", "--ro-bind") and one[1] == one[2] for one in more)
    named = {os.path.realpath(Path(workspace, Path(text).expanduser())) for text, _ in folders}
    assert all(any(one[1] == path or one[1].startswith(f"{path}/") for path in named) for one in more)
    assert not any(one[1] == "/" for one in more)


# The cases that were reported


def test_a_nul_in_a_variable_does_not_become_an_option_of_bubblewrap() -> None:
    """R7: `"X": "a\\0--bind\\0/…"` was a mount."""
    with pytest.raises(PluginError, match=r"`environment\.X`.*contains a NUL character"):
        bundle({"command": "python3", "env": {"X": "a\0--bind\0/\0/host"}}, {})


def test_a_default_does_not_join_what_is_beside_it_to_a_variable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X1: with the default `$`, `${user_config.a}{CANARY}` was filled in twice."""
    got = asyncio.run(received(plugin_with("w", "v", "$", "o", place=place), dict(os.environ), monkeypatch))
    assert got.variables["Y"] == "${CANARY}"


def test_a_folder_whose_name_looks_like_a_variable_stays_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(place / "${CANARY}"))
    config = plugin_with("${HOME}", "${__dirname}", "d", "o", place=place, arguments=("${workspace}",))
    got = asyncio.run(received(config, dict(os.environ), monkeypatch))
    assert got.variables["HOME"].endswith("/${CANARY}/plugins/odd/home")
    assert CANARY not in "".join([*got.variables.values(), *got.command])


def test_ferrules_own_folders_are_empty_in_the_box_wherever_they_lie(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1: nothing that is shown holds them, or they are replaced where the system does."""
    got = as_usual(place, monkeypatch)
    own = os.path.realpath(place / "data")
    assert ("--bind", f"{own}/plugins/odd/home", f"{own}/plugins/odd/home") in got.rest
    assert not [one for one in got.rest if one[0].endswith("bind") and own.startswith(f"{one[-1].rstrip('/')}/")]
    in_system = system_places(closed=True, emptied=[Path("/usr/share")])
    assert in_system.emptied == ("/usr/share",)
    assert not in_system.show("/usr/share/ferrule")


@pytest.mark.parametrize("name", ["FERRULE_DATA", "ferrule_config", "A=B", "", "A B", "A\0B", "1A"])
def test_a_plugin_names_no_variable_of_ferrule_and_none_that_is_no_name(name: str) -> None:
    with pytest.raises(PluginError):
        bundle({"command": "python3", "env": {name: "x"}}, {})
    with pytest.raises(PluginError):
        bundle({"command": "python3"}, {name: {"sensitive": True}})


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=texts, value=texts, default=texts)
def test_a_real_plugin_sees_exactly_its_texts(
    place: Path, monkeypatch: pytest.MonkeyPatch, word: str, value: str, default: str
) -> None:
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    wanted = {"a": {"type": "string", "default": default}}
    env = {"X": value, "LD_LIBRARY_PATH": "/nowhere", "PATH": "/bin", "HOME": "/elsewhere"}
    config = {"command": "python3", "args": ["-c", code, word], "env": env}

    async def run() -> Any:
        server = server_of(installed(bundle(config, wanted)), place / "workspace")
        box, (stdin, stdout, stderr) = await started(server, dict(os.environ))
        try:
            os.close(stdin)
            with os.fdopen(stdout, "rb") as heard:
                said = await asyncio.to_thread(heard.read)
        finally:
            os.close(stderr)
            await end_program(box)
        return json.loads(said)

    try:
        arguments, variables = asyncio.run(run())
    except REFUSED:
        return
    assert arguments == [expected(word, place, a=default)]
    assert variables["X"] == expected(value, place, a=default)
    assert variables["HOME"] == str(place / "data/plugins/odd/home")
    assert CANARY not in json.dumps(variables)
    assert not {*variables} & {"CANARY", "FERRULE_DATA", "PYTEST_CURRENT_TEST"}
