"""The words of a tool's name, and whether it begins with a verb (T11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.lint import CHANGING_VERBS, COMMANDS, VERBS, begins_with_verb, changing_verb, words_of


@given(st.text(max_size=40))
def test_words_of_any_name(name: str):
    words = words_of(name)
    assert all(words)
    assert "".join(words).lower() == "".join(words)
    if words:
        begins_with_verb(words)
        assert changing_verb(words) is None or changing_verb(words) in words


@pytest.mark.parametrize("name", ["read_file", "readFile", "ReadFile", "read-file", "READ_FILE"])
def test_all_ways_of_writing_a_name_are_one(name: str):
    assert words_of(name) == ["read", "file"]


def test_verbs_are_plain_words():
    assert all(verb.isascii() and verb.islower() for verb in VERBS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getHTTPResponse", ["get", "http", "response"]),
        ("parseJSON", ["parse", "json"]),
        ("sha256sum", ["sha", "256", "sum"]),
        ("mcp__github__create_issue", ["mcp", "github", "create", "issue"]),
        ("读取文件", ["读取文件"]),
        ("größe_lesen", ["gr", "öß", "e", "lesen"]),
        ("___", []),
        ("", []),
    ],
)
def test_where_one_word_ends_and_the_next_begins(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    "name",
    [
        "read", "reindexFiles", "unstarRepo", "preload_cache", "prettify_code", "tokenize_text", "tokenise_text",
        "git_status", "docker_ps", "kubectl_pods", "github_create_issue", "brave_web_search", "读取文件",
        "autoscale_group",
    ],
)  # fmt: skip
def test_names_that_say_what_is_done(name: str) -> None:
    assert begins_with_verb(words_of(name))


@pytest.mark.parametrize("name", ["weather", "user_data", "the_big_red_read", "calculator", "red_data", "unicorn"])
def test_names_that_do_not(name: str) -> None:
    """A verb counts at the start, or behind the name of a server; not anywhere."""
    assert not begins_with_verb(words_of(name))


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("delete_file", "delete"),
        ("githubDeleteRepo", "delete"),
        ("send-mail", "send"),
        ("list_deleted_files", None),
        ("get_delete_policy", None),
        ("search_and_delete", None),
        ("read_file", None),
        ("weather", None),
        ("", None),
    ],
)
def test_the_verb_that_changes_things_is_the_first_one(name: str, verb: str | None) -> None:
    """T11: `get_delete_policy` reads."""
    assert changing_verb(words_of(name)) == verb


def test_every_changing_verb_is_known_as_a_verb() -> None:
    """One that is not would never be found."""
    assert CHANGING_VERBS <= VERBS
    assert [verb for verb in CHANGING_VERBS if changing_verb([verb]) != verb] == []


def test_a_program_is_no_verb() -> None:
    assert not COMMANDS & CHANGING_VERBS


@given(st.sampled_from(sorted(VERBS)), st.sampled_from(["file", "user", "data"]))
def test_a_verb_is_a_verb_in_every_spelling(verb: str, noun: str) -> None:
    for name in (f"{verb}_{noun}", f"{verb}-{noun}", f"{verb}{noun.title()}", f"{verb.title()}{noun.title()}"):
        assert words_of(name) == [verb, noun]
        assert begins_with_verb(words_of(name))
