"""Whether a plugin's files are what was locked: cheap while nothing touched them, and never wrong (R7)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ferrule.plugins import installed_files
from ferrule.plugins.installed_files import require_intact, tree_digest
from ferrule.plugins.lock import LockedPlugin
from ferrule.plugins.manifest import Manifest, PluginError


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LockedPlugin:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path))
    monkeypatch.setattr(installed_files, "_SECONDS_TO_SETTLE", 0.0)
    program = tmp_path / "plugins/wordy/program"
    (program / "lib").mkdir(parents=True)
    (program / "lib/code.py").write_text("one = 1\n")
    (program / "python").symlink_to("/usr/bin/env")
    time.sleep(0.02)  # the clock of the file system ticks more slowly
    return LockedPlugin(
        Manifest(name="wordy", version="1.0", runtime="ferrule", entry="wordy"), "wordy.whl", tree=tree_digest(program)
    )


def unread(plugin: LockedPlugin) -> bool:
    raise AssertionError("all files were read")


def test_files_that_nobody_touched_are_read_once(plugin: LockedPlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    require_intact(plugin)
    monkeypatch.setattr(installed_files, "is_intact", unread)
    require_intact(plugin)


def test_those_that_were_touched_and_are_the_same_are_read_again_and_pass(
    plugin: LockedPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_intact(plugin)
    (plugin.program_folder / "lib/code.py").touch()
    time.sleep(0.02)
    require_intact(plugin)
    monkeypatch.setattr(installed_files, "is_intact", unread)
    require_intact(plugin)


@pytest.mark.parametrize("change", ["content", "mode", "link", "more", "less", "gone"])
def test_every_change_is_refused_also_with_the_old_time(plugin: LockedPlugin, change: str) -> None:
    """R7."""
    require_intact(plugin)
    code, link = plugin.program_folder / "lib/code.py", plugin.program_folder / "python"
    before = code.stat()
    time.sleep(0.02)
    if change == "content":
        code.write_text("one = 2\n")  # as long as it was
        os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "mode":
        code.chmod(0o755)
    elif change == "link":
        link.unlink()
        link.symlink_to("/usr/bin/tee")
    elif change == "more":
        (code.parent / "more.pth").write_text("import os\n")
    elif change == "less":
        code.unlink()
    else:
        plugin.program_folder.rename(plugin.program_folder.with_name("elsewhere"))
    with pytest.raises(PluginError, match="were changed since it was installed"):
        require_intact(plugin)


def test_what_was_kept_for_other_files_does_not_count(plugin: LockedPlugin) -> None:
    """A lock that says something else is believed, and not what was found right before."""
    require_intact(plugin)
    other = LockedPlugin(plugin.manifest, plugin.source, tree="0" * 64)
    with pytest.raises(PluginError):
        require_intact(other)
