"""C: the tool system of a coding agent, behaviour by behaviour."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import pytest
from tests.sources.behaviours import shown
from tests.workspace.desk import Desk

from ferrule import (
    ErrorKind,
    RawCall,
    Registry,
    RulePolicy,
    Runtime,
    ToolError,
    ToolResult,
    raw_tool,
    tool,
)
from ferrule.dialects import Exporter
from ferrule.records import LogRecorder
from ferrule.tools import builtin_tools, lint_tool

BEHAVIOURS = [
    # Why a tool system
    shown(17, "P1", "The model reads files, changes them, searches and runs commands",
          "tests/cli/test_run_whole_task.py::test_a_bug_is_found_mended_tested_and_undone_and_the_record_matches"),
    shown(18, "T10", "All tools have one interface", "tests/dialects/test_known.py::test_every_known_dialect_is_there"),
    shown(19, "P4", "Permission and validation stand before every tool",
          "tests/core/test_errors.py::test_the_stages_are_seven_in_order"),
    shown(20, "R7", "Tools are added without changing the core",
          "tests/cli/test_plugins.py::test_from_a_file_to_a_used_tool_in_three_commands"),
    # Definitions
    shown(40, "T10", "A definition has a name, a description and an input_schema",
          "tests/dialects/test_anthropic.py::test_a_definition"),
    shown(49, "T10", "An input_schema is an object with properties, required fields and additionalProperties",
          "::test_an_input_schema_says_whether_more_fields_are_taken"),
    shown(57, "T3", "A property has a type, a description, choices, items and a default",
          "tests/core/test_params.py::test_the_schema_shows_what_a_model_needs_and_no_titles"),
    shown(73, "S1", "Read reaches every file of the machine",
          "tests/workspace/test_paths.py::test_no_spelling_leads_out",
          better="The file tools reach the workspace and the folders that the user added, and nothing else: what a "
                 "model may read is the user's choice."),
    shown(76, "T3", "Read takes an absolute path",
          "tests/workspace/test_paths.py::test_relative_paths_start_in_the_working_directory"),
    shown(78, "T3", "Read starts at an offset and reads as many lines as the limit says",
          "::test_an_offset_skips_lines",
          better="`offset` says how many lines to skip, from 0: that is also how many have been read, so the next "
                 "page starts at the sum of both."),
    shown(79, "T3", "A line of more than 2000 characters is cut",
          "tests/builtin/test_read.py::test_a_long_line_is_cut_and_says_so"),
    shown(80, "T3", "Lines are numbered as by `cat -n`, from 1",
          "tests/builtin/test_read.py::test_lines_are_numbered_from_one"),
    shown(108, "P11", "Commands run in a shell that stays", "tests/builtin/test_execute_command.py::test_good_cases"),
    shown(111, "T1", "A model is told how to call Bash", "tests/builtin/test_bash.py::test_what_a_model_reads_of_it"),
    shown(113, "P6", "A command takes a timeout in milliseconds, up to ten minutes",
          "::test_a_longer_timeout_is_refused"),
    shown(114, "P11", "A command can run in the background", "tests/builtin/test_bash.py::test_good_cases",
          "tests/builtin/test_bash_output.py::test_each_reading_goes_on_where_the_last_one_ended"),
    shown(124, "T3", "A command has a description", "tests/builtin/test_bash.py::test_good_cases"),
    shown(152, "P11", "Edit needs the file to be read first",
          "tests/workspace/test_tracker.py::test_a_file_that_was_not_read_is_not_changed"),
    shown(154, "T9", "Edit fails if the text is not unique",
          "tests/builtin/test_edit.py::test_each_error_in_its_own_words"),
    shown(155, "T3", "replace_all renames throughout a file",
          "tests/builtin/test_edit.py::test_replace_all_changes_every_place"),
    shown(170, "T9", "The new text must differ from the old",
          "tests/workspace/edits/test_matching.py::test_the_same_text_twice_is_no_edit"),
    # How to define well
    shown(188, "T11", "A description of two words is found to be too short", "::test_a_short_description_is_found"),
    shown(202, "T3", "Grep takes full regular expressions", "::test_grep_takes_regular_expressions"),
    shown(203, "T3", "Grep filters files by a glob", "tests/builtin/test_grep.py::test_good_cases"),
    shown(204, "T3", "Grep gives lines or only the names of files", "::test_grep_has_output_modes"),
    shown(209, "T3", "Each parameter has its type, also the items of a list",
          "tests/core/test_plain_schema.py::test_what_is_written_is_what_pydantic_writes"),
    shown(225, "T3", "A default stands in the schema and is filled in",
          "tests/core/test_schema_defaults.py::test_defaults_are_filled_in_at_every_depth"),
    shown(239, "T3", "Required parameters are marked, and one with a default is not",
          "tests/core/test_function_params.py::test_parameters_without_default_are_required"),
    # Validation
    shown(280, "P2", "A required parameter that is missing is named", "::test_each_wrong_argument_is_named"),
    shown(292, "P2", "An unknown parameter is an error where the schema takes no others",
          "::test_an_unknown_field_is_taken_only_where_the_schema_says_so"),
    shown(301, "P2", "Every parameter is checked, and all errors come at once", "::test_all_errors_come_at_once"),
    shown(323, "P2", "Text, numbers, booleans, lists and objects are told apart",
          "::test_each_wrong_argument_is_named"),
    shown(341, "P2", "A wrong element of a list is named with its index", "::test_each_wrong_argument_is_named",
          better="Of a list, every wrong element is named and not only the first, so that one retry is enough."),
    shown(361, "P2", "A value outside the choices is answered with the choices", "::test_each_wrong_argument_is_named"),
    shown(372, "P2", "null is a type of its own", "::test_each_wrong_argument_is_named"),
    shown(389, "P2", "Read with a path, an offset and a limit is valid", "::test_an_offset_skips_lines"),
    shown(405, "P2", "Read without a path is not", "::test_read_without_a_path"),
    # The flow of a call
    shown(437, "P1", "The dispatcher looks a tool up by its name",
          "tests/pipeline/test_lookup.py::test_a_known_name_gives_its_tool"),
    shown(441, "P2", "A tool that is not there is an error for the model",
          "tests/pipeline/test_lookup.py::test_an_unknown_tool_is_answered_with_the_nearest_names"),
    shown(450, "P2", "Parameters that are not valid are an error for the model",
          "tests/pipeline/test_validate.py::test_every_mistake_is_told_at_once_with_its_true_place"),
    shown(455, "P4", "A list of denied calls comes before a list of allowed ones",
          "tests/pipeline/test_authorise.py::test_deny_beats_allow_in_every_mode",
          "tests/policy/test_decide.py::test_what_a_deny_rule_is_about_never_runs"),
    shown(459, "P4", "The user is asked, and confirms or refuses",
          "tests/pipeline/test_confirm.py::test_once_runs_it_once",
          "tests/pipeline/test_confirm.py::test_no_goes_to_the_model_with_its_reason"),
    shown(466, "P4", "A call without permission is an error that says why",
          "tests/pipeline/test_authorise.py::test_a_denied_call_says_why"),
    shown(472, "P1", "The outcome goes back to the model, whether it succeeded or failed",
          "tests/pipeline/test_run.py::test_whatever_is_asked_there_is_exactly_one_result_and_one_record"),
    shown(515, "P1", "An unknown tool does not raise",
          "tests/pipeline/test_run.py::test_whatever_is_asked_there_is_exactly_one_result_and_one_record"),
    shown(539, "P2", "The errors are lines of the message", "::test_all_errors_come_at_once"),
    shown(549, "P4", "A denial names its reason",
          "tests/policy/test_decide.py::test_a_denial_names_the_rule_and_where_it_stands"),
    shown(554, "O2", "The start of a tool is logged, and its end with the time it took",
          "tests/records/test_logs.py::test_a_call_is_followed_from_lookup_to_end"),
    shown(565, "O2", "A failure is logged", "tests/records/test_logs.py::test_a_call_is_followed_from_lookup_to_end"),
    shown(569, "P1", "An exception of a tool is a failed result with its message",
          "tests/pipeline/test_execute.py::test_whatever_a_tool_raises_is_a_result"),
    shown(579, "P5", "A batch runs its calls in parallel",
          "tests/pipeline/test_batch.py::test_independent_calls_really_run_at_the_same_time"),
    shown(590, "T10", "A call has an id, the type tool_use, a name and an input",
          "tests/dialects/test_anthropic.py::test_calls_are_found_wherever_they_are",
          "::test_a_call_in_a_providers_form_runs_as_it_is"),
    shown(602, "P1", "Register the built-in tools, call Read, and look at the result",
          "::test_from_a_registry_to_a_result"),
    # Good practice
    shown(642, "T11", "A tool that does everything is found", "::test_a_manager_of_everything_is_found"),
    shown(660, "T11", "A tool with choices and described parameters is good",
          "::test_a_tool_with_choices_has_no_findings"),
    shown(694, "P10", "An error says what would help", "::test_an_error_says_what_would_help"),
    shown(706, "P5", "Independent calls run together and dependent ones in order",
          "tests/pipeline/test_schedule.py::test_the_schedule_is_exactly_what_colliding_demands"),
    shown(722, "P5", "Results of independent calls come first, and then those of the others",
          "tests/pipeline/test_batch.py::test_results_come_in_the_order_asked",
          better="Results come in the order in which the calls were made, whichever of them ran together: a model "
                 "counts on that order."),
    shown(730, "P7", "A result is kept for five minutes", "tests/pipeline/test_cache.py::test_the_same_call_runs_once",
          "::test_a_kept_result_is_good_for_five_minutes"),
    shown(733, "P7", "The key of a result is the input",
          "tests/pipeline/test_cache.py::test_equal_arguments_written_differently_are_the_same_call",
          "tests/pipeline/test_cache.py::test_another_caller_or_place_is_another_call",
          better="A kept result is for the same tool, version, arguments, caller and folder: the arguments alone "
                 "would give one tenant what another one read."),
    shown(738, "O2", "The log says that a result came from the cache", "::test_the_log_says_that_a_result_was_kept"),
    shown(747, "P7", "Every result is kept", "tests/pipeline/test_cache.py::test_failures_are_never_kept",
          better="Only results of read-only tools that allow it are kept, and failures never: a cache must not hide "
                 "that the next try would work."),
    shown(765, "S3", "Dangerous characters are taken out of the input",
          "::test_text_with_signs_of_the_shell_arrives_as_it_is",
          better="Arguments reach programs as lists and never as pasted command lines, so nothing has to be taken "
                 "out: a text that loses its `;`, `&` and `$` is another text."),
    shown(777, "S1", "A path outside the workspace is refused",
          "tests/workspace/test_paths.py::test_a_twin_of_the_workspace_name_is_outside"),
    shown(782, "S1", "A path with `..` is refused",
          "tests/workspace/test_paths.py::test_dots_that_stay_inside_are_followed",
          better="A `..` that stays inside the workspace is followed, and only one that leads out is refused: "
                 "`src/../README.md` is harmless, and a file may be called `a..b`."),
    # FileSearch
    shown(807, "T3", "FileSearch looks for a pattern in many files",
          "tests/builtin/test_file_search.py::test_searching_only"),
    shown(808, "T3", "The pattern is a regular expression",
          "tests/builtin/test_file_search.py::test_groups_are_put_in_as_regex_tools_write_them"),
    shown(809, "P4", "Changes can be previewed", "tests/builtin/test_file_search.py::test_a_preview"),
    shown(810, "T9", "Matches come with their line numbers", "::test_matches_have_line_numbers"),
    shown(823, "T3", "file_glob chooses files, all unless given", "::test_a_search_takes_a_glob_of_any_depth"),
    shown(832, "P4", "Nothing is changed unless preview_only is false",
          "::test_a_replacement_is_a_preview_unless_told_otherwise"),
    shown(838, "T3", "A pattern and a path are required",
          "tests/builtin/test_file_search.py::test_what_a_model_reads_of_it",
          better="FileSearch needs only a pattern; without a path it searches the working directory."),
    shown(886, "T3", "The replacement is made in every file with a match",
          "tests/builtin/test_file_search.py::test_applying",
          better="An empty replacement deletes what was found, and only none at all means to search."),
    shown(888, "P4", "A replacement is a write",
          "tests/builtin/test_file_search.py::test_a_preview_runs_free_and_applying_asks",
          "::test_a_rule_for_edits_covers_a_replacement"),
    shown(899, "T9", "The metadata has the matches, the files that were searched and whether they were changed",
          "::test_metadata_of_file_search"),
    shown(907, "P1", "A search that fails is a failed result", "tests/builtin/test_file_search.py::test_bad_cases"),
    shown(920, "T9", "No match is a success that says so", "::test_no_match_is_a_success"),
    shown(926, "T9", "A preview shows each line before and after",
          "::test_a_replacement_is_a_preview_unless_told_otherwise",
          better="A preview is a diff, as `git diff` writes it, so that what stands around a change is seen as "
                 "well."),
    shown(941, "T1", "A preview says how to apply it", "::test_a_replacement_is_a_preview_unless_told_otherwise"),
    shown(961, "R1", "The tool is registered and called like any other", "::test_a_search_takes_a_glob_of_any_depth"),
    shown(982, "P2", "The syntax of the pattern is checked", "::test_a_pattern_that_is_none_is_a_validation_error"),
    shown(983, "T3", "A match may span lines",
          "tests/builtin/test_file_search.py::test_a_line_break_in_a_pattern_takes_the_whole_line_ending_with_it"),
    shown(984, "T3", "Files can be left out", "::test_files_can_be_left_out"),
    shown(985, "P11", "A replacement in many files is undone as one",
          "tests/cli/test_undo.py::test_a_replacement_over_many_files_is_taken_back_at_once",
          "::test_a_program_undoes_and_redoes_a_change"),
    shown(986, "P9", "A long search shows its progress", "tests/builtin/test_file_search.py::test_progress_is_told"),
]  # fmt: skip

BY_NAME = {one.name: one for one in builtin_tools()}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "number"},
        "deep": {"type": "boolean"},
        "items": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object"},
        "language": {"type": "string", "enum": ["ts", "js"]},
    },
    "required": ["text"],
}


def call(arguments: dict[str, Any], **schema: Any) -> ToolResult:
    take = raw_tool("take", {**SCHEMA, **schema}, lambda params: params)
    return Runtime([take]).run_sync("take", arguments)


def run(desk: Desk, name: str, **arguments: Any) -> Any:
    return asyncio.run(desk.runtime.run(name, arguments))


def test_an_input_schema_says_whether_more_fields_are_taken() -> None:
    """T10."""
    (definition,) = Exporter("anthropic").definitions([BY_NAME["Read"]])
    assert set(definition) == {"name", "description", "input_schema", "input_examples"}
    schema = definition["input_schema"]
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["file_path"], False)


def test_an_offset_skips_lines(desk: Desk) -> None:
    desk.put("index.ts", "".join(f"line {number}\n" for number in range(1, 101)))
    assert desk.read("index.ts", offset=10, limit=2).llm_content.splitlines()[:2] == [
        "    11\tline 11",
        "    12\tline 12",
    ]
    assert desk.read("index.ts", offset=0, limit=50).metadata["lines_read"] == 50


def test_a_longer_timeout_is_refused(desk: Desk) -> None:
    result = run(desk, "Bash", command="true", timeout=600_001)
    assert result.error.kind is ErrorKind.VALIDATION
    assert "at most 600000" in result.llm_content


def test_a_short_description_is_found() -> None:
    """T11."""
    bad = raw_tool("search", {"type": "object", "properties": {}}, lambda params: 1, description="Search files")
    assert "F012" in {one.rule for one in lint_tool(bad)}


def test_grep_takes_regular_expressions(desk: Desk) -> None:
    desk.put("a.ts", "function main() {\n  log('an Error');\n}\n")
    for pattern in (r"log.*Error", r"function\s+\w+"):
        assert run(desk, "Grep", pattern=pattern, glob="**/*.ts").data["count"] == 1


def test_grep_has_output_modes(desk: Desk) -> None:
    desk.put("a.ts", "needle\nneedle\n")
    words = {mode: run(desk, "Grep", pattern="needle", output_mode=mode).llm_content.splitlines()[1:]
             for mode in ("content", "files_with_matches", "count")}  # fmt: skip
    assert words == {"content": ["a.ts:1:needle", "a.ts:2:needle"], "files_with_matches": ["a.ts"], "count": ["a.ts:2"]}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "`text`: required, but missing"),
        ({"text": []}, "`text`: expected string, got an empty array"),
        ({"text": None}, "`text`: expected string, got null"),
        ({"text": "x", "count": "many"}, '`count`: expected number, got string "many"'),
        ({"text": "x", "deep": "perhaps"}, '`deep`: expected boolean, got string "perhaps"'),
        ({"text": "x", "items": "y"}, '`items`: expected array [string, …], got string "y"'),
        ({"text": "x", "items": ["a", "b", {"c": 1}, []]}, "`items[2]`: expected string, got an object"),
        ({"text": "x", "items": ["a", "b", {"c": 1}, []]}, "`items[3]`: expected string, got an empty array"),
        ({"text": "x", "where": [1]}, "`where`: expected object, got an array"),
        ({"text": "x", "language": "py"}, '`language`: must be "ts" or "js"; got string "py"'),
    ],
)
def test_each_wrong_argument_is_named(arguments: dict[str, Any], problem: str) -> None:
    """P2."""
    result = call(arguments)
    assert result.error is not None
    assert result.error.kind is ErrorKind.VALIDATION
    assert f"- {problem}" in result.llm_content


def test_an_unknown_field_is_taken_only_where_the_schema_says_so() -> None:
    """P2."""
    assert call({"text": "x", "more": 1}).success
    refused = call({"text": "x", "languge": "ts"}, additionalProperties=False)
    assert "`languge`: unknown field. Did you mean `language`?" in refused.llm_content


def test_all_errors_come_at_once() -> None:
    result = call({"count": [1], "deep": [1], "where": "x"})
    lines = [line for line in result.llm_content.splitlines() if line.startswith("- ")]
    assert [line.split("`")[1] for line in lines] == ["text", "count", "deep", "where"]


def test_read_without_a_path(desk: Desk) -> None:
    result = run(desk, "Read", offset=10)
    assert result.error.kind is ErrorKind.VALIDATION
    assert "`file_path`: required, but missing" in result.llm_content


@pytest.mark.parametrize(
    "form",
    [
        {"type": "tool_use", "id": "tool_call_123", "name": "Read", "input": {"file_path": "a.txt"}},
        {"type": "function", "id": "tool_call_123",
         "function": {"name": "Read", "arguments": '{"file_path": "a.txt"}'}},
    ],
)  # fmt: skip
async def test_a_call_in_a_providers_form_runs_as_it_is(form: dict[str, Any], desk: Desk) -> None:
    """T10: of Anthropic and of OpenAI."""
    desk.put("a.txt", "x\n")
    result = await desk.runtime.run(form)  # type: ignore[arg-type]
    assert (result.success, result.call_id, result.tool) == (True, "tool_call_123", "Read")


async def test_from_a_registry_to_a_result(desk: Desk) -> None:
    """P1: the parts, put together by hand."""
    desk.put("src/index.ts", "import a\n" * 60)
    registry = Registry()
    registry.register_many(builtin_tools())
    runtime = Runtime(registry, session=desk.session)
    (request,) = Exporter("anthropic").calls(
        {"content": [{"type": "tool_use", "id": "tool_call_123", "name": "Read",
                      "input": {"file_path": "src/index.ts", "offset": 0, "limit": 50}}]}
    )  # fmt: skip
    result = await runtime.run(request)
    assert (result.call_id, result.success, result.metadata["lines_read"]) == ("tool_call_123", True, 50)


def test_a_manager_of_everything_is_found() -> None:
    """T11."""
    manager = raw_tool(
        "FileManager", {"type": "object", "properties": {}}, lambda params: 1,
        description="Manage files: read, write, delete, move, etc.",
    )  # fmt: skip
    assert {"F003", "F013"} <= {one.rule for one in lint_tool(manager)}


def test_a_tool_with_choices_has_no_findings() -> None:
    """T11."""
    schema = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Regular expression pattern to search for"},
            "path": {"type": "string", "description": "Directory to search in; the current one unless given"},
            "file_type": {"type": "string", "description": "Only files of this type", "enum": ["ts", "js", "py"]},
        },
        "required": ["pattern"],
    }
    good = raw_tool(
        "SearchCode", schema, lambda params: 1, kind="readonly",
        description="Search for patterns in code. Use this to find where something is written.",
    )  # fmt: skip
    assert lint_tool(good) == []


def test_an_error_says_what_would_help() -> None:
    @tool(kind="readonly")
    def open_it() -> str:
        """Open it. Use this to test."""
        raise ToolError("It is not there.", suggestion="Check whether the file exists.")

    said = Runtime([open_it]).run_sync("open_it").llm_content
    assert said == "Error (execution_error): It is not there.\n\nSuggestion: Check whether the file exists."


def test_a_kept_result_is_good_for_five_minutes() -> None:
    @tool(kind="readonly", cache=True)
    def look() -> str:
        """Look. Use this to test."""
        return "seen"

    assert look.cache == 300


async def test_the_log_says_that_a_result_was_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ferrule.calls")

    @tool(kind="readonly", cache=True)
    def look() -> str:
        """Look. Use this to test."""
        return "seen"

    runtime = Runtime([look], recorders=[LogRecorder()])
    await runtime.run(RawCall("look", id="c1"))
    await runtime.run(RawCall("look", id="c2"))
    ends = [one.getMessage() for one in caplog.records if one.getMessage().startswith("success")]
    assert ["cache" in one for one in ends] == [False, True]


def test_text_with_signs_of_the_shell_arrives_as_it_is(desk: Desk) -> None:
    """S3."""
    signs = "a; b && c | d `e` $f\n"
    assert desk.write("a.txt", signs).success
    assert desk.bytes_of("a.txt") == signs.encode()


def test_matches_have_line_numbers(desk: Desk) -> None:
    desk.put("a.ts", "x\n// TODO one\n")
    assert "a.ts:2:// TODO one" in run(desk, "FileSearch", pattern="TODO").llm_content


def test_a_search_takes_a_glob_of_any_depth(desk: Desk) -> None:
    for name in ("src/a.ts", "src/deep/b.ts", "src/c.js", "d.ts"):
        desk.put(name, "// TODO\n")
    found = run(desk, "FileSearch", pattern="TODO", path="src", file_glob="**/*.ts", preview_only=True).data
    assert sorted(one["path"] for one in found["files"]) == ["src/a.ts", "src/deep/b.ts"]
    assert run(desk, "FileSearch", pattern="TODO").data["matches"] == 4


def test_a_replacement_is_a_preview_unless_told_otherwise(desk: Desk) -> None:
    desk.put("a.ts", "// TODO one\n")
    said = run(desk, "FileSearch", pattern="TODO", replace_with="DONE").llm_content
    assert "-// TODO one\n+// DONE one" in said
    assert "`preview_only` set to false" in said
    assert desk.bytes_of("a.ts") == b"// TODO one\n"
    assert run(desk, "FileSearch", pattern="TODO", replace_with="DONE", preview_only=False).success
    assert desk.bytes_of("a.ts") == b"// DONE one\n"


async def test_a_rule_for_edits_covers_a_replacement(desk: Desk) -> None:
    """P4: in the folder of the rule and in no other."""
    desk.put("src/a.ts", "one\n")
    desk.put("lib/a.ts", "one\n")
    runtime = Runtime(builtin_tools(), policy=RulePolicy(allow=["Edit(src/**)"]), session=desk.session)
    arguments = {"pattern": "one", "replace_with": "two", "preview_only": False}
    outside = await runtime.run("FileSearch", {**arguments, "path": "lib"})
    assert outside.error is not None
    assert outside.error.kind is ErrorKind.PERMISSION
    assert (await runtime.run("FileSearch", {**arguments, "path": "src"})).success


def test_metadata_of_file_search(desk: Desk) -> None:
    desk.put("a.ts", "one one\n")
    desk.put("b.ts", "two\n")
    result = run(desk, "FileSearch", pattern="one", replace_with="1")
    assert (result.metadata["matches"], result.metadata["files_searched"]) == (2, 2)
    assert result.data["applied"] is False
    assert run(desk, "FileSearch", pattern="one", replace_with="1", preview_only=False).data["applied"] is True


def test_no_match_is_a_success(desk: Desk) -> None:
    desk.put("a.ts", "one\n")
    result = run(desk, "FileSearch", pattern="nowhere")
    assert (result.success, result.data["matches"]) == (True, 0)
    assert "No match for `nowhere`" in result.llm_content


def test_a_pattern_that_is_none_is_a_validation_error(desk: Desk) -> None:
    desk.put("a.ts", "one\n")
    assert run(desk, "FileSearch", pattern="(").error.kind is ErrorKind.VALIDATION


def test_files_can_be_left_out(desk: Desk) -> None:
    for name in ("a.ts", "a.min.ts", "vendor/b.ts"):
        desk.put(name, "one\n")
    found = run(desk, "FileSearch", pattern="one", exclude="*.min.ts, vendor").data
    assert [one["path"] for one in found["files"]] == ["a.ts"]


async def test_a_program_undoes_and_redoes_a_change(desk: Desk) -> None:
    """P11, X1."""
    await desk.runtime.run("Write", {"file_path": "a.txt", "content": "x"})
    history: Any = desk.session.history  # type: ignore[attr-defined]
    for change, names in ((history.undo, []), (history.redo, ["a.txt"])):
        done = change()
        if inspect.isawaitable(done):
            await done
        assert desk.names() == names
