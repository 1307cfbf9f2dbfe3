"""Which plugins are enabled and what their tools are, as the user agreed to them: from the lock, at each start.

Nothing of a plugin runs for this, and what would run it (`isolated.py`) is not even imported: twenty plugins must not
slow a start down. So the lock is read as it lies there; `lock.py` checks every bit of it before a plugin is used.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from ferrule import Kind
from ferrule.extension import phrase, read_json, said_by
from ferrule.extension.hosting import FOR_WRITING, AgreedServer, Definition
from ferrule.plugins.plugin_files import DEFINITIONS, TOKENS, lock_file, plugins_folder, withdrawn_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ferrule.extension.hosting import ServerConfig


def enabled_plugins(workspace: Path) -> tuple[list[AgreedServer], list[str]]:
    """All plugins that the user agreed to, and what is to be said of the others."""
    found: list[AgreedServer] = []
    notes: list[str] = []
    try:
        for plugin in json.loads(lock_file().read_bytes())["plugins"]:
            if not plugin["enabled"]:
                continue
            about = plugin["manifest"]
            name = about["name"].rpartition("/")[2]
            # By the market that it came from: no other has a say in it.
            gone = withdrawn_names(plugin["market"]) if plugin["market"] else {}
            offered = (plugin["source"].partition(":")[2], plugin.get("release") or about["version"])
            if (why := gone.get(offered)) is None:
                found.append(_agreed(name, plugin, workspace))
            else:
                words = phrase("The plugin `{name}` was withdrawn and is not used: {why}.", name=name,
                               why=why.rstrip("."))  # fmt: skip
                notes.append(words)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        from ferrule.plugins.lock import read_lock
        from ferrule.plugins.manifest import PluginError

        try:
            read_lock()
        except PluginError as error:
            return [], [said_by(error)]
        why = phrase("it is not as Ferrule writes it")
        return [], [phrase("{file} is damaged: {why}.", file=lock_file(), why=why)]
    return found, notes


def _agreed(name: str, plugin: Mapping[str, Any], workspace: Path) -> AgreedServer:
    digests: dict[str, str] = plugin["definitions"]
    # A tool can only be believed to change nothing where nothing lets it: the others ask as what they may do.
    writes = any(folder.endswith(FOR_WRITING) for folder in plugin["grants"]["folders"])
    kinds = {
        tool["name"]: Kind.WRITE if tool["kind"] == Kind.READONLY and writes else Kind(tool["kind"])
        for tool in plugin["manifest"]["tools"]
        if tool["kind"] != "unknown"
    }
    payloads = read_json(plugins_folder() / name / DEFINITIONS)
    offered = [Definition(payloads[one]) for one in digests if isinstance(payloads.get(one), dict)]
    known = [one for one in offered if digests.get(one.payload.get("name", "")) == one.digest]
    config = partial(_config, name, digests, workspace)
    return AgreedServer(name, digests, known, kinds, config, plugins_folder() / name / TOKENS, plugin)


def _config(name: str, digests: Mapping[str, str], workspace: Path) -> ServerConfig:
    from ferrule.plugins.isolated import agreed_config

    return agreed_config(name, digests, workspace)
