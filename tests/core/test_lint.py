"""The linter for tool definitions (T11)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from ferrule.core.access import reads, writes
from ferrule.core.description import Description, Example
from ferrule.core.function_tool import raw_tool, tool
from ferrule.core.lint import lint_tool
from ferrule.core.tool import Tool

ROOT = Path(__file__).parents[2]
CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "A city, in English."}}}


def rules(
    name: str = "get_weather",
    schema: Any = CITY,
    description: Any = "Get the weather of a city. Use it before planning a trip.",
    **options: Any,
) -> list[str]:
    options.setdefault("kind", "readonly")
    made = raw_tool(name, schema, lambda arguments: None, description=description, **options)
    return [f"{finding.rule} {finding.where}" for finding in lint_tool(made)]


def prop(name: str = "city", **said: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"description": "Something.", **said}}}


def test_a_good_tool_has_no_findings():
    """T11: silence is the usual answer."""

    @tool(kind="readonly")
    def get_weather(city: str, days: int = 1) -> str:
        """Get the weather of a city. Use it before planning a trip.

        Args:
            city: The city's name, in English.
            days: How many days ahead to look.
        """
        return city

    assert lint_tool(get_weather) == []
    assert rules() == []


# Tools of coding agents and of MCP servers that many people use
REAL_NAMES = """
    Read Write Edit MultiEdit Glob Grep Bash BashOutput KillShell WebFetch WebSearch TodoWrite NotebookEdit ExitPlanMode
    read_file write_file edit_file list_directory search_files get_file_info move_file create_directory
    git_status git_diff_unstaged git_commit git_log git_show git_checkout create_issue list_commits
    search_repositories get_pull_request merge_pull_request fork_repository create_or_update_file push_files
    browser_navigate browser_click browser_snapshot browser_take_screenshot puppeteer_screenshot
    brave_web_search slack_post_message slack_list_channels fetch create_entities read_graph open_nodes
    add_observations convert_time get_current_time maps_geocode read_query describe_table list-tables
    append_insight run_terminal_cmd codebase_search file_search apply_patch str_replace_editor execute_command
    ask_followup_question attempt_completion readFile listFiles searchFiles getCurrentDirectory getGitInfo
    getCurrentDateTime executeCommand FileSearch resolve-library-id get-library-docs create_new_intent
    query_entity_schema think update_plan view_image API-post-search notion-create-pages firecrawl_scrape
    stripe_create_refund docker_ps printEnv sampleLLM
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", REAL_NAMES)
def test_names_in_wide_use_are_accepted(name: str):
    """T11: no false alarms."""
    assert [rule for rule in rules(name, kind="write", touches=lambda _: ()) if rule.endswith("name")] == []


def test_there_are_enough_real_names():
    assert len(set(REAL_NAMES)) >= 80


@pytest.mark.parametrize("name", ["weather", "user_data", "file_contents", "calculator", "Weather", "cityInfo", "tree"])
def test_a_name_without_a_verb_is_found(name: str):
    """T11: verb-first clear names."""
    assert "F003 name" in rules(name)


@pytest.mark.parametrize("name", ["search", "Search", "get", "getData", "run_process", "do-stuff", "handle_task"])
def test_a_name_that_fits_any_tool_is_found(name: str):
    """T11: A's own example of a bad name is `search`."""
    assert "F004 name" in rules(name)


@pytest.mark.parametrize("name", ["get weather", "1get", "-get", "get.weather", "获取天气", "get_" + "x" * 61])
def test_a_name_some_provider_refuses_is_found(name: str):
    """T10, T11."""
    if " " in name:
        with pytest.raises(TypeError):
            rules(name)
    else:
        assert "F001 name" in rules(name)


@pytest.mark.parametrize(
    ("description", "found"),
    [
        ("", ["F010 description"]),
        ("   ", ["F010 description"]),
        ("Get weather.", ["F011 description"]),
        ("get_weather", ["F011 description"]),
        ("This tool: get the weather", ["F011 description"]),
        ("Weather of a city.", ["F012 description"]),
        ("Returns the weather of any city.", ["F013 description"]),
        ("Returns the weather. Use it before a trip.", []),
        ("查询城市天气，出行前使用", []),
        ("搜索", ["F012 description"]),
        ("查天气用", ["F012 description"]),
        ("é", ["F012 description"]),
        (Description("Returns the weather of any city.", usage_notes=("Prefer it over a web search.",)), []),
    ],
)
def test_descriptions(description: Any, found: list[str]):
    """T11: a description that says when to use the tool."""
    assert rules(description=description) == found


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": "object", "properties": {"city": {}}}, ["F023 parameters.city"]),
        ({"type": "object", "properties": {"city": {"description": " "}}}, ["F023 parameters.city"]),
        (prop("c"), ["F024 parameters.c"]),
        (prop("-n"), []),
        (prop("param"), ["F025 parameters.param"]),
        (prop(enum=["a", "b", "a"]), ["F026 parameters.city"]),
        (prop(enum=["a", ""]), ["F026 parameters.city"]),
        (prop(enum=[1, True]), []),
        (prop(enum=[str(number) for number in range(101)]), ["F026 parameters.city"]),
        (prop(items={"enum": []}), ["F026 parameters.city[]"]),
        ({}, ["F021 parameters"]),
        (True, ["F021 parameters"]),
        ({"type": "object", "properties": {f"field_{n}": {"description": "One."} for n in range(16)}}, ["F022 parameters"]),
        ({"type": "object", "properties": {"city": {"type": "strin"}}}, ["F020 parameters"]),
        ({"type": "object", "$ref": "https://example.org/x"}, ["F020 parameters"]),
        (
            {
                "type": "object",
                "properties": {"city": {"$ref": "#/$defs/City"}},
                "$defs": {"City": {"description": "A city."}},
            },
            [],
        ),
    ],
)  # fmt: skip
def test_parameters(schema: Any, found: list[str]):
    """T11: described parameters, no one-letter names."""
    assert rules(schema=schema) == found


def test_a_typed_tool_that_cannot_compile_is_found():
    class Thing:
        pass

    @tool
    def get_thing(thing: Thing) -> str:  # pyright: ignore[reportInvalidTypeForm]
        """Get a thing that has no JSON form, to see it refused."""
        return str(thing)

    assert "F020" in [finding.rule for finding in lint_tool(get_thing)]


def test_examples_must_be_calls_that_work():
    description = Description(
        "Get the weather. Use it before a trip.",
        examples=(Example("good", {"city": "Oslo"}), Example("bad", {"city": 5})),
    )
    assert rules(description=description) == ["F027 examples[1]"]


@pytest.mark.parametrize("name", ["delete_file", "deleteFile", "github_delete_repo", "send-mail", "Write"])
def test_a_changing_name_that_claims_to_read_is_found(name: str):
    assert rules(name) == ["F030 kind"]
    assert rules(name, kind="write", touches=lambda _: ()) == []


def test_effects_without_touches_are_hinted_at():
    """T11, P5: what a call touches decides what may run beside it."""
    assert rules("create_file", kind="write") == ["F031 touches"]
    assert rules("create_file", kind="write", touches=lambda _: [writes("path", "/a")]) == []


class CityParams(BaseModel):
    city: str = Field(description="The city's name.")


def test_a_class_says_its_touches_by_a_method():
    class MoveCity(Tool[CityParams]):
        """Move a city, for planners who need it elsewhere."""

        name = "move_city"

        def run(self, params: CityParams, context: object) -> None: ...

    class MoveCityCarefully(MoveCity):
        """Move a city, for planners who need it elsewhere."""

        def touches(self, params: CityParams):
            return (reads("city", params.city),)

    assert [finding.rule for finding in lint_tool(MoveCity())] == ["F031"]
    assert lint_tool(MoveCityCarefully()) == []


def test_rules_can_be_ignored_and_only_known_ones():
    made = raw_tool("weather", True, lambda arguments: None, kind="readonly")
    assert [finding.rule for finding in lint_tool(made)] == ["F003", "F010", "F021"]
    assert [finding.rule for finding in lint_tool(made, ignore={"F003", "F010"})] == ["F021"]
    with pytest.raises(ValueError, match="F999"):
        lint_tool(made, ignore={"F999"})
