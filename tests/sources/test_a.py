"""A: the function calling of a terminal assistant, behaviour by behaviour."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.sources.behaviours import shown
from tests.workspace.desk import Desk

from ferrule import (
    Answer,
    Choice,
    Question,
    RawCall,
    Registry,
    RulePolicy,
    Runtime,
    ToolError,
    raw_tool,
    tool,
)
from ferrule.agent import Agent
from ferrule.agent.agent_events import CallAsked
from ferrule.builtin.bash import execute_command
from ferrule.builtin.glob import search_files
from ferrule.builtin.list_directory import list_files
from ferrule.builtin.read import read_file
from ferrule.cli.chatting.call_view import CallView
from ferrule.cli.chatting.screen import LiveScreen, Paint, Screen
from ferrule.cli.words import choose_language
from ferrule.core.model import ToolResults
from ferrule.core.result import ToolResult
from ferrule.dialects import Exporter
from ferrule.testing import ScriptedModel, call, say
from ferrule.tools import Plugin, builtin_tools, lint_tool

SEVEN = {
    "readFile", "listFiles", "searchFiles", "getCurrentDirectory", "getGitInfo", "getCurrentDateTime", "executeCommand",
}  # fmt: skip

BEHAVIOURS = [
    # What function calling is
    shown(20, "M1", "The model recognises that a tool is needed, picks one and fills in its arguments",
          "tests/agent/test_turn.py::test_definitions_go_out_calls_run_and_results_go_back_until_words"),
    shown(23, "M1", "The result of a tool goes into the conversation",
          "tests/agent/test_turn.py::test_definitions_go_out_calls_run_and_results_go_back_until_words"),
    shown(29, "M1", "A question about the time is answered through getCurrentDateTime",
          "::test_a_question_about_the_time_is_answered_by_the_tool"),
    shown(31, "M1", "One request may take several operations",
          "tests/agent/test_turn.py::test_calls_of_one_answer_run_together_and_results_keep_their_order"),
    shown(32, "M2", "The state and the result of every call are shown",
          "tests/cli/test_run.py::test_the_answer_is_on_stdout_and_calls_are_on_stderr",
          "tests/cli/chatting/test_call_view.py::test_each_ending_has_a_symbol_and_a_word"),
    shown(32, "O3", "Every call can be audited",
          "tests/cli/test_call.py::test_every_call_is_on_record_refusals_included"),
    # Parts
    shown(55, "P1", "A call is received, looked up, validated, checked, run, and its result collected, in this "
                    "order", "tests/core/test_errors.py::test_the_stages_are_seven_in_order",
          "tests/pipeline/test_run.py::test_refusals_are_recorded_with_the_stage_they_ended_in"),
    shown(67, "R1", "The registry holds the seven tools, and more can join them",
          "::test_the_seven_tools_are_a_family_of_their_own", "::test_the_assistant_can_be_given_the_seven",
          "tests/builtin/test_all_tools.py::test_every_tool_that_a_module_makes_is_listed_once"),
    shown(84, "T10", "A definition is a function with a name, a description and a JSON Schema",
          "::test_the_definition_of_read_file", "tests/dialects/test_openai_chat.py::test_a_definition"),
    shown(118, "T4", "A handler is an async function of the arguments",
          "tests/core/test_raw_tool.py::test_a_handler_may_be_written_in_any_style"),
    shown(124, "S1", "The path is checked before a file is read",
          "tests/builtin/test_path_attacks.py::test_an_attack_is_refused_and_its_neighbour_works"),
    shown(146, "R1", "A registry finds a handler and its schema by name",
          "tests/registry/test_registry.py::test_a_registered_tool_is_found"),
    shown(150, "T4", "A schema and a handler are registered together", "::test_a_schema_and_a_handler_become_a_tool"),
    shown(160, "P2", "A call of an unknown tool is a failed result, not an exception",
          "tests/pipeline/test_lookup.py::test_an_unknown_tool_is_answered_with_the_nearest_names",
          "::test_a_user_who_misspells_a_tool_is_not_spoken_to_as_a_model"),
    shown(170, "P2", "Arguments arrive as JSON text; text that is no JSON is a failed result",
          "tests/pipeline/test_validate.py::test_text_that_is_not_json_is_refused_in_words",
          better='Harmless slips in arguments, such as a trailing comma or `"5"` for 5, are repaired where they '
                 "have only one meaning, and the result says so: a second try costs a model a whole turn."),
    shown(173, "P2", "Arguments are validated before the tool runs",
          "tests/pipeline/test_validate.py::test_every_mistake_is_told_at_once_with_its_true_place"),
    shown(176, "P4", "A command that the user denies does not run, and the result says who cancelled it",
          "::test_a_denied_command_does_not_run_and_says_so"),
    shown(190, "T9", "A success carries the data that the tool returned",
          "tests/pipeline/test_format.py::test_the_typed_value_is_kept_beside_the_words"),
    shown(194, "T9", "Whatever a tool raises is a failed result with its message",
          "tests/pipeline/test_execute.py::test_whatever_a_tool_raises_is_a_result"),
    shown(203, "T10", "All definitions can be had at once for the model",
          "tests/dialects/test_exporter.py::test_names_go_out_and_come_back"),
    # The seven tools
    shown(218, "T3", "readFile takes filePath, relative or absolute", "::test_read_file_takes_either_form_of_a_path"),
    shown(225, "T3", "readFile returns filePath, content, size and encoding",
          "tests/builtin/test_read_file.py::test_it_gives_the_whole_text_and_what_it_is_written_in"),
    shown(230, "T3", "The size of a file is in bytes", "::test_the_size_of_a_file_is_in_bytes"),
    shown(249, "T3", "listFiles takes directoryPath and recursive, which is false unless given",
          "tests/builtin/test_list_files.py::test_what_a_model_reads_of_it",
          better="`listFiles` needs no directory: without one it lists the working directory, which is what a model "
                 "that leaves it out means."),
    shown(257, "T3", "listFiles returns path, files, directories and total",
          "tests/builtin/test_list_files.py::test_what_it_gives"),
    shown(279, "T3", "searchFiles takes a glob and a baseDir, the current directory unless given",
          "tests/builtin/test_search_files.py::test_what_it_gives"),
    shown(287, "T3", "searchFiles returns pattern, matches and count",
          "tests/builtin/test_search_files.py::test_what_it_gives"),
    shown(297, "T3", "`**/*.ts` finds the TypeScript files of every folder", "::test_two_stars_reach_every_folder"),
    shown(308, "T3", "getCurrentDirectory returns path and basename",
          "tests/builtin/test_get_current_directory.py::test_it_is_the_workspace_unless_another_directory_was_chosen"),
    shown(330, "T3", "getGitInfo returns isRepo, branch, commit, remote and status",
          "tests/builtin/test_get_git_info.py::test_what_it_gives",
          better="`getGitInfo` says null where there is no branch, commit or remote, and leaves the password out of "
                 "a remote's address: an empty text would look like a name."),
    shown(359, "T3", "getCurrentDateTime returns datetime, timestamp, timezone and formatted",
          "tests/builtin/test_get_current_date_time.py::test_its_forms_agree_with_each_other_and_the_clock"),
    shown(365, "T3", "Date, time and both are formatted as 2026-02-11, 14:30:00 and 2026-02-11 14:30:00",
          "tests/builtin/test_get_current_date_time.py::test_the_full_form_is_the_date_and_the_time_and_nothing_else"),
    shown(383, "P4", "executeCommand needs the user's approval",
          "tests/boxes/test_trial.py::test_what_changed_something_asks_with_exactly_that",
          better="A command that only reads runs without a question. It is tried in a box where nothing that it "
                 "changes becomes real, so a question comes only where there is something to decide, and shows the "
                 "changes."),
    shown(387, "T3", "executeCommand takes command and cwd", "tests/builtin/test_execute_command.py::test_good_cases",
          better="Commands run in one shell for the whole session: a folder, a variable or a function that one "
                 "command sets is there for the next, and a working directory that is given stays."),
    shown(395, "T3", "executeCommand returns command, stdout, stderr, exitCode and success",
          "tests/builtin/test_execute_command.py::test_what_a_program_gets_and_what_is_displayed"),
    shown(399, "T9", "A command that exits with another code than 0 did not succeed",
          "::test_a_command_that_fails_is_a_failed_call", "::test_call_exits_non_zero_where_the_command_failed"),
    shown(409, "P4", "Before a dangerous command the command is shown and confirmed, and no is the default",
          "tests/cli/test_ask.py::test_only_a_clear_yes_is_one",
          "tests/boxes/test_trial.py::test_s2_a_question_about_a_dangerous_command_warns"),
    # How it works together
    shown(449, "M1", "The result of a tool is added to the messages, and the model writes the final answer",
          "tests/agent/test_turn.py::test_definitions_go_out_calls_run_and_results_go_back_until_words"),
    shown(468, "P5", "Three calls of one answer give three results in the order asked",
          "::test_three_calls_of_one_answer", "tests/pipeline/test_batch.py::test_results_come_in_the_order_asked",
          better="Calls of one answer run together where none depends on another, and in order where one does; the "
                 "outcome is always that of running them one after the other, only sooner."),
    # Safety
    shown(487, "S2", "Nine kinds of dangerous commands ask before they run",
          "::test_s2_each_kind_of_dangerous_command_asks",
          better="A command is read by a grammar of the shell, not compared with patterns: `rm -fr x`, `rm "
                 "--recursive --force x` and a function that calls them count as `rm -rf x`, and `echo sudo` does "
                 "not count."),
    shown(508, "P4", "A setting turns the confirmation of dangerous commands off",
          "tests/policy/test_decide.py::test_the_switch_for_dangerous_commands_leaves_all_other_questions"),
    shown(512, "P4", "A command that is not dangerous runs without a question",
          "tests/policy/test_decide.py::test_no_everyday_command_of_the_corpus_asks_before_it_runs",
          better="A command that is not dangerous may still change files. It asks once it is known what it would "
                 "change, unless a rule or the mode approves that."),
    shown(518, "P4", "The dialogue has a title, the command and a question",
          "::test_the_question_about_a_dangerous_command_in_chinese"),
    shown(529, "S1", "A path is resolved and must lie inside the workspace",
          "tests/workspace/test_paths.py::test_no_spelling_leads_out",
          "tests/workspace/test_paths.py::test_a_twin_of_the_workspace_name_is_outside"),
    shown(538, "S1", "Symbolic links are refused",
          "tests/workspace/test_paths.py::test_a_link_that_leads_out_is_refused",
          "tests/workspace/test_paths.py::test_a_link_that_stays_inside_is_followed_to_the_real_file",
          better="A symbolic link that stays inside the workspace is followed, and one that leads out is refused, "
                 "also when it is swapped in while a tool runs: repositories contain links, and only where they "
                 "lead counts."),
    shown(550, "P2", "A JSON Schema validator checks the arguments and lists what is wrong",
          "tests/core/test_schema_problems.py::test_every_problem_is_named_at_once"),
    # What a user sees
    shown(573, "M2", "A call is pending, succeeded or failed, with an icon and yellow, green or red",
          "::test_a_call_has_an_icon_and_a_colour_for_each_state", "::test_a_command_that_failed_is_shown_as_failed"),
    shown(590, "M2", "The row of a call has the name of its tool and a text for its state",
          "tests/cli/chatting/test_call_view.py::test_each_ending_has_a_symbol_and_a_word"),
    shown(601, "M2", "readFile, listFiles, searchFiles and executeCommand say in Chinese what they do",
          "tests/cli/chatting/test_call_words.py::test_every_built_in_says_what_it_does_in_chinese",
          "::test_the_states_of_the_four_tools_in_chinese", "::test_the_users_line_is_in_their_language",
          better="A finished call says what came of it (`read 3 lines`, `ended with code 2`) and a failed one says "
                 "why, instead of only that it succeeded or failed."),
    # Tools of one's own
    shown(610, "T4", "Define a schema, write a handler, register them, and the tool can be called",
          "::test_a_schema_and_a_handler_become_a_tool"),
    shown(638, "R7", "A plugin has a name, a version, tools, and may have initialize and cleanup",
          "tests/app/test_build.py::test_a_plugin_is_started_before_and_cleaned_up_after",
          "::test_a_plugin_is_written_as_schemas_and_handlers"),
    shown(652, "R7", "A plugin is loaded from a path, and its tools are registered",
          "::test_a_plugin_is_loaded_from_a_path", "::test_a_plugin_joins_a_registry"),
    shown(668, "P3", "The validator of a tool is compiled once",
          "tests/core/test_raw_tool.py::test_it_is_compiled_once_however_many_ask"),
    shown(685, "P5", "Independent calls run at the same time",
          "tests/pipeline/test_batch.py::test_independent_calls_really_run_at_the_same_time"),
    # Good definitions
    shown(697, "T11", "A tool does one thing", "tests/core/test_lint.py::test_a_good_tool_has_no_findings",
          better="Whether a tool does one thing is for people: a linter that counted verbs would be wrong about "
                 "`find and replace`. It warns about more than 15 parameters, a name without a verb, and no `use it "
                 "when`."),
    shown(698, "T11", "A name begins with a verb", "tests/core/test_lint.py::test_a_name_without_a_verb_is_found"),
    shown(699, "T11", "A description is clear and detailed", "tests/core/test_lint.py::test_descriptions"),
    shown(700, "P2", "Arguments are strictly validated by a JSON Schema",
          "tests/core/test_schema_problems.py::test_a_raw_tool_and_a_typed_one_speak_alike"),
    shown(701, "P2", "Errors are friendly and say what helps",
          "tests/pipeline/test_validate.py::test_a_bad_choice_is_answered_with_the_choices"),
    shown(702, "T2", "A tool can say that the same input gives the same outcome",
          "tests/remote/test_faults.py::test_a_worker_dies_or_stands_still_at_each_step",
          better="A tool need not give the same output each time; it says whether it is `idempotent`, and only then "
                 "is an interrupted call run again."),
    shown(708, "T11", "A good schema passes the linter", "::test_the_good_schema_has_no_findings"),
    shown(725, "T11", "A vague name, a description that says too little and a one-letter parameter are found",
          "::test_the_bad_schema_is_found_in_every_part"),
    # What was planned
    shown(739, "T3", "Tools for Word, PDF and Excel",
          "tests/toolbox/documents/test_reading.py::test_a_word_document_with_all_that_other_readers_miss",
          "tests/toolbox/documents/test_reading.py::test_pages_of_a_pdf",
          "tests/toolbox/documents/test_reading.py::test_cells_of_a_workbook"),
    shown(740, "T3", "Tools for Obsidian notes",
          "tests/toolbox/test_notes.py::test_a_note_is_read_with_its_properties_links_and_backlinks"),
    shown(741, "T3", "A tool that queries databases",
          "tests/toolbox/test_databases.py::test_rows_come_as_a_table_and_as_typed_data",
          "::test_a_database_file_of_the_workspace_is_queried_by_its_path"),
    shown(744, "T3", "A tool for HTTP requests", "tests/toolbox/test_web.py::test_a_request_and_its_answer"),
    shown(745, "T3", "Tools that send and receive mail",
          "tests/toolbox/test_mail.py::test_a_mail_is_sent_as_it_was_approved",
          "tests/toolbox/test_mail.py::test_mails_are_found_by_what_they_say_newest_first"),
    shown(746, "T3", "Tools for the events of calendars",
          "tests/toolbox/test_calendar.py::test_a_new_event_has_all_that_was_asked_for"),
    shown(749, "R7", "A system of plugins",
          "tests/cli/test_plugins.py::test_from_a_file_to_a_used_tool_in_three_commands"),
    shown(750, "R7", "A market of tools",
          "tests/cli/test_market.py::test_from_nothing_to_what_there_is_in_two_commands"),
    shown(751, "O3", "Statistics of the use of tools",
          "tests/cli/test_stats.py::test_it_counts_what_was_done_failed_and_refused"),
]  # fmt: skip


def answer(choice: Choice, why: str = "") -> Any:
    async def ask(question: Question) -> Answer:
        return Answer(choice, why)

    return ask


@pytest.fixture
def chinese() -> Iterator[None]:
    choose_language(["--lang", "zh"])
    yield
    choose_language(["--lang", "en"])


async def test_a_question_about_the_time_is_answered_by_the_tool() -> None:
    """M1: the model chooses the tool, reads its result, and answers with it."""

    def read_the_clock(request: Any) -> str:
        (result,) = request.messages[-1].results
        return f"It is {json.loads(result.llm_content)['formatted']['full']}."

    model = ScriptedModel([call("getCurrentDateTime", {}), read_the_clock])
    tools = [one for one in builtin_tools() if one.name == "getCurrentDateTime"]
    assert (await Agent(model, tools).answer("What time is it?")).text.startswith("It is 2")


def test_the_seven_tools_are_a_family_of_their_own() -> None:
    assert {one.name for one in builtin_tools(family="assistant")} == SEVEN  # type: ignore[call-arg]


def test_the_assistant_can_be_given_the_seven(ferrule: Command) -> None:
    """T3: and then it has no others, so that each thing has one name."""
    (ferrule.workspace / "a.txt").write_text("x")
    script = ferrule.folder / "script.json"
    calls = [
        {"name": "readFile", "arguments": {"filePath": "a.txt"}},
        {"name": "Read", "arguments": {"file_path": "a"}},
    ]
    script.write_text(json.dumps([{"text": "", "calls": calls}, "Done."]))
    done = ferrule("run", "try it", f"--model=scripted:{script}", "--json", FERRULE_ASSISTANT_TOOLS="assistant")
    assert [one["result"]["success"] for one in done.json["calls"]] == [True, False]


def test_the_definition_of_read_file() -> None:
    """T10: what the model is sent of a tool."""
    (definition,) = Exporter("openai").definitions([read_file])
    assert definition["type"] == "function"
    function = definition["function"]
    assert function["name"] == "readFile"
    assert function["description"]
    assert function["parameters"]["required"] == ["filePath"]
    assert function["parameters"]["properties"]["filePath"]["type"] == "string"
    assert function["parameters"]["properties"]["filePath"]["description"]


def test_a_schema_and_a_handler_become_a_tool() -> None:
    """T4: no class and no types are needed for a tool that is known only at run time."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"param1": {"type": "string", "description": "The first parameter"}},
        "required": ["param1"],
    }

    async def handler(params: dict[str, Any]) -> dict[str, Any]:
        return {"result": params["param1"]}

    registry = Registry()
    registry.register(raw_tool("myCustomTool", schema, handler, description="A tool of my own"))
    runtime = Runtime(registry)
    assert runtime.run_sync("myCustomTool", '{"param1": "x"}').data == {"result": "x"}
    refused = runtime.run_sync("myCustomTool", {}).error
    assert refused is not None
    assert (refused.kind, "param1" in refused.message) == ("validation_error", True)


async def test_a_denied_command_does_not_run_and_says_so(desk: Desk) -> None:
    runtime = Runtime([execute_command], ask=answer(Choice.NO, "not now"), session=desk.session)
    async with runtime:
        result = await runtime.run("executeCommand", {"command": "touch made"})
    assert not result.success
    assert result.error is not None
    assert result.error.kind == "permission_error"
    assert "the user denied it" in result.llm_content
    assert desk.names() == []


def test_read_file_takes_either_form_of_a_path(desk: Desk) -> None:
    file = desk.put("a.txt", "x\n")
    assert desk.call("readFile", "a.txt").data["content"] == desk.call("readFile", str(file)).data["content"] == "x\n"


def test_the_size_of_a_file_is_in_bytes(desk: Desk) -> None:
    desk.put("a.txt", "日本\n")
    assert desk.call("readFile", "a.txt").data["size"] == 7


def test_two_stars_reach_every_folder(desk: Desk) -> None:
    for name in ("index.ts", "src/app.ts", "src/core/deep.ts", "src/a.js"):
        desk.put(name, "x")
    found = asyncio.run(desk.runtime.run("searchFiles", {"pattern": "**/*.ts"})).data
    assert sorted(found["matches"]) == ["index.ts", "src/app.ts", "src/core/deep.ts"]
    assert (found["pattern"], found["count"]) == ("**/*.ts", 3)


async def test_a_command_that_fails_is_a_failed_call(desk: Desk) -> None:
    """T9: the result says so to programs, and has all that the command wrote."""
    async with desk.runtime:
        result = await desk.runtime.run("executeCommand", {"command": "echo out; echo bad >&2; (exit 3)"})
    assert not result.success
    assert result.error is not None
    assert (result.error.kind, dict(result.error.details or {})["exit_code"]) == ("execution_error", 3)
    assert (result.data["stdout"], result.data["stderr"]) == ("out\n", "bad\n")
    assert (result.data["exitCode"], result.data["success"]) == (3, False)
    assert "out" in result.llm_content
    assert "bad" in result.llm_content


def test_call_exits_non_zero_where_the_command_failed(ferrule: Command) -> None:
    assert ferrule("call", "executeCommand", '{"command": "false"}').code != 0


async def test_three_calls_of_one_answer(desk: Desk) -> None:
    """P5, M1: what is in a project, in one answer of the model."""
    desk.put("package.json", "{}")
    calls = [call("getCurrentDirectory", {}), call("listFiles", {"directoryPath": "."}),
             call("readFile", {"filePath": "package.json"})]  # fmt: skip
    agent = Agent(ScriptedModel([say("", *calls), "It is a Node.js project."]), runtime=desk.runtime)
    assert (await agent.answer("What is this project?")).text == "It is a Node.js project."
    results = next(one for one in agent.conversation.messages if isinstance(one, ToolResults)).results
    assert [one.tool for one in results] == ["getCurrentDirectory", "listFiles", "readFile"]
    assert [one.success for one in results] == [True, True, True]
    assert json.loads(results[1].llm_content)["files"] == ["package.json"]


@pytest.mark.parametrize(
    "command",
    ["rm -rf build", "sudo ls", "chmod 777 run.sh", "echo x > /dev/sda", "mkfs.ext4 /dev/sda1",
     "dd if=/dev/zero of=disk.img", "shutdown -h now", "reboot", ":(){ :|:& };:"],
)  # fmt: skip
def test_s2_each_kind_of_dangerous_command_asks(command: str, desk: Desk) -> None:
    questions: list[Question] = []

    async def ask(question: Question) -> Answer:
        questions.append(question)
        return Answer(Choice.NO)

    runtime = Runtime([execute_command], policy=RulePolicy(allow=["Bash"]), ask=ask, session=desk.session)
    result = asyncio.run(runtime.run("executeCommand", {"command": command}))
    assert not result.success
    assert len(questions) == 1
    assert questions[0].effects is None  # before anything has run


@pytest.mark.xfail(strict=True, reason="the Chinese question has no title for dangerous commands")
def test_the_question_about_a_dangerous_command_in_chinese(
    desk: Desk, chinese: None, capsys: pytest.CaptureFixture[str]
) -> None:
    from ferrule.cli.ask import show

    async def ask(question: Question) -> Answer:
        show(question)
        return Answer(Choice.NO)

    runtime = Runtime([execute_command], policy=RulePolicy(allow=["Bash"]), ask=ask, session=desk.session)
    asyncio.run(runtime.run("executeCommand", {"command": "rm -rf build"}))
    said = capsys.readouterr().err
    assert "危险命令警告" in said
    assert "rm -rf build" in said
    assert "确认执行" in said


def coloured() -> Screen:
    screen = LiveScreen(io.StringIO(), size=lambda: os.terminal_size((80, 20)))
    screen.paint = Paint(True)
    return screen


def test_a_call_has_an_icon_and_a_colour_for_each_state() -> None:
    """M2: yellow while it runs, then green or red."""
    view = CallView(CallAsked(RawCall("readFile", {"filePath": "a"}), "reading `a`", "reading `a`"), 0.0)
    assert "\x1b[33m" in view.live_rows(0.0, 0, coloured())[0]
    good = ToolResult("c", "readFile", True, "x", "read 1 byte")
    assert view.final_rows(good, 0.0, coloured())[0].startswith("\x1b[32m✓")
    bad = asyncio.run(Runtime([_broken]).run("break_it", {}))
    assert view.final_rows(bad, 0.0, coloured())[0].startswith("\x1b[31m✗")


@tool(kind="readonly", name="break_it")
def _broken() -> str:
    """Break. Use this to fail."""
    raise ToolError("It is broken.")


@pytest.mark.parametrize(
    ("name", "arguments", "while_it_runs", "done"),
    [
        ("readFile", {"filePath": "a.txt"}, "正在读取", "读取了 2 字节"),
        ("listFiles", {"directoryPath": "."}, "正在列出", "找到 1 项"),
        ("searchFiles", {"pattern": "*.txt"}, "正在查找", "找到 1 个文件"),
        ("executeCommand", {"command": "true"}, "正在运行", "完成"),
    ],
)
def test_the_states_of_the_four_tools_in_chinese(
    name: str, arguments: dict[str, Any], while_it_runs: str, done: str, desk: Desk, chinese: None
) -> None:
    from ferrule.cli.chatting.call_view import doing, outcome

    desk.put("a.txt", "x\n")
    (one,) = [one for one in (read_file, list_files, search_files, execute_command) if one.name == name]
    asked = CallAsked(RawCall(name, arguments), one.doing.format(**arguments), one.doing, arguments)
    assert while_it_runs in doing(asked)
    assert outcome(asyncio.run(desk.runtime.run(name, arguments))) == done


PLUGIN = """
calls = []

async def initialize():
    calls.append("initialize")

async def cleanup():
    calls.append("cleanup")

async def handler(params):
    return {"calls": list(calls), "text": params["text"]}

name = "echoes"
version = "1.2.0"
tools = [{
    "schema": {
        "name": "echoText",
        "description": "Echo a text. Use this to test.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    "handler": handler,
}]
"""


async def test_a_plugin_is_written_as_schemas_and_handlers(tmp_path: Path) -> None:
    """R7: the form of the description, with a name, a version, tools, initialize and cleanup."""
    file = tmp_path / "echoes.py"
    file.write_text(PLUGIN)
    async with Runtime(plugins=[file]) as runtime:  # type: ignore[call-arg]
        result = await runtime.run("echoText", {"text": "hi"})
    assert result.data == {"calls": ["initialize"], "text": "hi"}


def test_a_plugin_is_loaded_from_a_path(tmp_path: Path) -> None:
    from ferrule.tools import load_plugin  # type: ignore[attr-defined]

    file = tmp_path / "echoes.py"
    file.write_text(PLUGIN)
    plugin: Any = load_plugin(file)
    assert (plugin.name, plugin.version, [one.name for one in plugin.tools]) == ("echoes", "1.2.0", ["echoText"])


async def test_a_plugin_joins_a_registry() -> None:
    """R7: it is initialised before its first call, and cleaned up when it leaves."""
    happened: list[str] = []

    async def initialise() -> None:
        happened.append("initialise")

    async def clean_up() -> None:
        happened.append("clean up")

    @tool(kind="readonly")
    def echo_text(text: str) -> str:
        """Echo a text. Use this to test."""
        happened.append(text)
        return text

    plugin = Plugin("echoes", "1.2.0", [echo_text], initialise, clean_up)
    registry = Registry()
    await registry.add_plugin(plugin)
    await Runtime(registry).run("echo_text", {"text": "hi"})
    await registry.remove_plugin("echoes")
    assert "echo_text" not in registry
    assert happened == ["initialise", "hi", "clean up"]


def test_the_good_schema_has_no_findings() -> None:
    """T11: a verb first, a description with an example, a described and required parameter."""
    good = raw_tool(
        "searchFiles",
        {
            "type": "object",
            "properties": {"pattern": {"type": "string", "description": "A glob, such as **/*.js or src/**/*.tsx"}},
            "required": ["pattern"],
        },
        lambda params: [],
        kind="readonly",
        description="Find files by a glob: **/*.ts finds all TypeScript files. Use this to find files by their name.",
    )
    assert lint_tool(good) == []


def test_the_bad_schema_is_found_in_every_part() -> None:
    """T11: the name says too little, the description says nothing more, and the parameter is one letter."""
    schema = {"type": "object", "properties": {"p": {"type": "string"}}}
    bad = raw_tool("search", schema, lambda params: [], kind="readonly", description="搜索")
    found = {finding.where for finding in lint_tool(bad)}
    assert {"name", "parameters.p"} <= found
    assert any(one.where == "description" and one.rule in ("F011", "F012") for one in lint_tool(bad))


def test_a_user_who_misspells_a_tool_is_not_spoken_to_as_a_model(ferrule: Command) -> None:
    """P2: someone at a shell was given no tools."""
    said = ferrule("call", "noSuchTool").err
    assert "noSuchTool" in said
    assert "you were given" not in said


@pytest.mark.parametrize("name", ["Bash", "executeCommand"])
def test_a_command_that_failed_is_shown_as_failed(name: str, ferrule: Command) -> None:
    """M2: in `ferrule run`."""
    script = ferrule.folder / "script.json"
    script.write_text(json.dumps([{"text": "", "calls": [{"name": name, "arguments": {"command": "false"}}]}, "Done."]))
    said = ferrule("run", "try it", f"--model=scripted:{script}", FERRULE_ASSISTANT_TOOLS=name).err
    assert "✗" in said
    assert "✓" not in said


def test_a_database_file_of_the_workspace_is_queried_by_its_path(ferrule: Command) -> None:
    with closing(sqlite3.connect(ferrule.workspace / "shop.db")) as database:
        database.execute("create table orders(total)")
        database.execute("insert into orders values (42)")
        database.commit()
    done = ferrule("call", "QueryDatabase", '{"database": "shop.db", "sql": "select total from orders"}')
    assert (done.code, "42" in done.out) == (0, True)


def test_the_users_line_is_in_their_language(desk: Desk) -> None:
    desk.put("a.txt", "one\n")
    runtime = Runtime(builtin_tools(), session=desk.session, language="zh")  # type: ignore[call-arg]
    result = asyncio.run(runtime.run("Read", {"file_path": "a.txt"}))
    assert "行" in result.display_content
    assert result.llm_content.endswith("one")
