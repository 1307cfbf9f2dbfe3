"""Where a rule comes from."""

from __future__ import annotations

from pathlib import Path

from ferrule.policy.rules import BUILT_IN, SESSION, Source, SourceKind


def test_a_model_is_not_told_where_a_person_keeps_their_settings():
    source = Source(SourceKind.USER, Path("/home/ada/.config/ferrule/ferrule.toml"))
    assert source.words == "the user's `ferrule.toml`"
    assert source.place == "/home/ada/.config/ferrule/ferrule.toml"


def test_only_a_projects_file_has_a_root_of_its_own():
    assert Source(SourceKind.PROJECT, Path("/ws/ferrule.toml")).root == Path("/ws")
    assert Source(SourceKind.USER, Path("/home/ada/ferrule.toml")).root is None
    assert Source(SourceKind.PROJECT, Path("/ws/ferrule.toml")).words == "the project's `ferrule.toml`"


def test_sources_without_a_file_have_words():
    assert (Source(SourceKind.FLAG).place, BUILT_IN.words) == ("the command line", "Ferrule itself")
    assert '"always"' in SESSION.words
