"""A plugin is tools with a name and a version (R7)."""

from __future__ import annotations

from ferrule import Plugin
from ferrule.plugins.discovery import as_plugin


def test_a_plugin_that_names_itself_keeps_its_name_and_learns_its_source() -> None:
    plugin = Plugin("weather", "2.0")
    assert as_plugin(plugin, "entry", "1.0", "somewhere", []) is plugin
    assert (plugin.name, plugin.version, plugin.source) == ("weather", "2.0", "somewhere")
