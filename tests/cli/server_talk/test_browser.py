"""Addresses go to the person's own browser, and nothing of it comes to the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ferrule.cli.server_talk.questions import has_browser, open_address


@pytest.mark.parametrize(
    ("environment", "platform", "has"),
    [
        ({}, "linux", False),
        ({"SSH_CONNECTION": "x"}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "w"}, "linux", True),
        ({"BROWSER": "b"}, "linux", True),
        ({}, "darwin", True),
    ],
)
def test_a_browser_needs_somewhere_to_appear(environment: dict[str, str], platform: str, has: bool) -> None:
    assert has_browser(environment, platform) is has


async def test_the_persons_browser_gets_it_and_no_module_of_the_folder_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program, took = tmp_path / "browser", tmp_path / "took"
    program.write_text(
        f"#!{sys.executable} -I\nimport sys\nprint('noise')\nopen({str(took)!r}, 'w').write(sys.argv[1])"
    )
    program.chmod(0o755)
    (tmp_path / "webbrowser.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BROWSER", str(program))
    assert await open_address("https://example.org/?a=1&b=2")
    assert took.read_text() == "https://example.org/?a=1&b=2"
    assert not (tmp_path / "ran").exists()
    assert capfd.readouterr() == ("", "")
