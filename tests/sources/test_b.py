"""B: a specification of a tool system, scenario by scenario."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from typing import Any

import pytest
from tests.sources.behaviours import shown
from tests.workspace.desk import Desk

from ferrule import (
    Caller,
    ErrorKind,
    NameTakenError,
    RawCall,
    Registry,
    RulePolicy,
    Runtime,
    Session,
    ToolContext,
    tool,
)
from ferrule.tools import builtin_tools

BEHAVIOURS = [
    # The interface of a tool
    shown(18, "T1", "A tool has a unique name",
          "tests/registry/test_registry.py::test_a_taken_name_is_refused_and_nothing_changes"),
    shown(19, "T1", "A tool has a description", "tests/core/test_tool.py::test_the_docstring_is_the_description"),
    shown(20, "T3", "A tool has a JSON Schema of its parameters",
          "tests/core/test_tool.py::test_the_schema_comes_from_the_parameters"),
    shown(24, "T8", "A tool gets its arguments and a context",
          "tests/core/test_context.py::test_a_tool_sees_its_session"),
    shown(25, "T9", "A tool returns a result", "tests/pipeline/test_run.py::test_a_call_gives_its_result"),
    shown(26, "T4", "A tool may be asynchronous", "tests/core/test_tool.py::test_run_may_be_written_in_every_style"),
    shown(30, "T2", "A tool says whether it needs permission", "::test_tools_that_ask_say_so"),
    shown(31, "P4", "The user approves before such a tool runs",
          "tests/pipeline/test_authorise.py::test_a_tool_that_says_it_needs_leave_asks"),
    shown(35, "T2", "A tool can be marked dangerous",
          "tests/core/test_tool.py::test_options_come_from_the_class_and_from_the_call"),
    shown(36, "P4", "The question about a dangerous tool has an extra warning",
          "tests/pipeline/test_confirm.py::test_a_dangerous_tool_brings_an_extra_warning"),
    # The registry
    shown(45, "R1", "A tool is registered under its name",
          "tests/registry/test_registry.py::test_a_registered_tool_is_found"),
    shown(46, "R2", "A tool of the same name replaces the one that is there",
          "::test_a_name_that_is_taken_is_replaced_where_that_is_wanted",
          better="A name that is taken is refused, and replaced only where that is asked for (`replace=True`, for a "
                 "registry or for one call): nothing takes over a name by accident."),
    shown(47, "R1", "The registry can be used by many at once",
          "tests/registry/test_registry.py::test_operations_from_many_threads_keep_the_laws",
          "::test_many_threads_register_and_look_up"),
    shown(51, "R1", "A tool is found by its name", "tests/registry/test_registry.py::test_a_registered_tool_is_found"),
    shown(52, "R1", "A name that nothing has gives None",
          "tests/registry/test_registry.py::test_an_absent_tool_is_none"),
    shown(56, "R1", "A list gives what is known of every tool",
          "tests/registry/test_registry.py::test_the_list_tells_what_there_is"),
    shown(57, "R1", "Tools can be chosen by name",
          "tests/registry/test_views.py::test_an_agents_list_names_its_tools_and_all_means_every_tool"),
    shown(61, "R4", "An agent with a list of tools gets those alone",
          "tests/agent/test_turn.py::test_a_tool_outside_the_filter_does_not_exist_for_the_model"),
    shown(62, "R4", "`all` means every tool",
          "tests/registry/test_views.py::test_an_agents_list_names_its_tools_and_all_means_every_tool"),
    # The context
    shown(71, "T8", "The context has the configuration", "::test_the_context_of_a_tool"),
    shown(72, "T8", "The context has the working directory", "::test_the_context_of_a_tool"),
    shown(76, "T8", "The context has the model in use", "::test_the_context_of_a_tool"),
    shown(77, "T8", "The context gives access to the model",
          "tests/agent/test_model_adapter.py::test_a_tool_asks_the_model_that_is_in_use",
          "::test_the_context_of_a_tool"),
    shown(81, "T8", "The context has the state of the session", "::test_the_context_of_a_tool"),
    shown(82, "T8", "A tool reads and changes that state", "::test_the_context_of_a_tool"),
    # Files
    shown(91, "T3", "A file is read by its path", "tests/builtin/test_read.py::test_lines_are_numbered_from_one"),
    shown(92, "T3", "A range of lines can be read",
          "tests/builtin/test_read.py::test_following_the_note_reads_every_line_once"),
    shown(93, "T9", "A file that does not exist is an error",
          "tests/builtin/test_read.py::test_a_missing_file_is_answered_with_the_nearest_names"),
    shown(97, "T3", "A file is created or overwritten", "tests/builtin/test_write.py::test_it_says_what_it_made"),
    shown(98, "T3", "The folders above a new file are made", "::test_a_write_makes_folders_once_it_is_approved"),
    shown(99, "P4", "The user approves before a file is written", "::test_a_write_makes_folders_once_it_is_approved",
          "tests/workspace/test_changing.py::test_with_nobody_to_ask_a_change_is_refused"),
    shown(103, "T3", "A text is replaced exactly",
          "tests/builtin/test_edit.py::test_bytes_outside_the_edit_never_change"),
    shown(104, "T9", "An edit that cannot be made is an error",
          "tests/builtin/test_edit.py::test_each_error_in_its_own_words"),
    shown(105, "T3", "Several places can be replaced",
          "tests/builtin/test_edit.py::test_replace_all_changes_every_place",
          "tests/builtin/test_multi_edit.py::test_it_makes_all_changes_as_one"),
    shown(109, "S1", "A path cannot lead out of the allowed folders",
          "tests/workspace/test_paths.py::test_no_spelling_leads_out"),
    shown(110, "S1", "Only the allowed folders can be reached",
          "tests/workspace/test_paths.py::test_an_added_folder_is_inside_and_its_neighbours_are_not"),
    # Commands
    shown(119, "T3", "A command runs in a shell", "tests/builtin/test_bash.py::test_good_cases"),
    shown(120, "T9", "Standard output and standard error are caught", "::test_what_a_command_wrote_and_how_it_ended"),
    shown(121, "T9", "The exit code is returned", "::test_what_a_command_wrote_and_how_it_ended"),
    shown(125, "P6", "A command is stopped when its time is up", "::test_a_command_is_stopped_with_all_it_started"),
    shown(126, "T9", "A command that was stopped for that is a timeout error",
          "::test_a_command_is_stopped_with_all_it_started"),
    shown(130, "S2", "A dangerous command needs the user's explicit approval",
          "tests/policy/test_decide.py::test_a_dangerous_command_asks_even_under_an_allow_rule"),
    shown(131, "S3", "Commands can be allowed and denied by lists", "::test_lists_of_commands"),
    shown(135, "S3", "What comes from outside is quoted in a command",
          "tests/builtin/test_shell_run.py::test_a_folder_is_quoted_whatever_its_name"),
    shown(136, "S3", "Nothing unchecked is pasted into a command",
          "tests/structure/test_structure.py::test_a_program_gets_text_from_outside_through_the_one_builder",
          "tests/structure/test_structure.py::test_a_stream_of_options_is_made_by_the_one_builder"),
    # Searches
    shown(145, "T3", "Grep searches contents with a regular expression", "tests/builtin/test_grep.py::test_good_cases"),
    shown(146, "T3", "Grep filters by the type of files", "::test_grep_filters_by_type_and_shows_lines_around"),
    shown(147, "T3", "Grep shows lines before, after and around", "::test_grep_filters_by_type_and_shows_lines_around"),
    shown(151, "T3", "Glob finds files by a pattern", "tests/workspace/searching/test_globs.py::test_what_a_glob_fits"),
    shown(152, "T3", "Glob looks into folders below", "tests/builtin/test_glob.py::test_good_cases"),
    shown(153, "T9", "Glob returns a list of paths", "tests/builtin/test_glob.py::test_good_cases"),
    shown(157, "P6", "A large tree is searched in reasonable time",
          "tests/workspace/searching/test_search.py::test_after_its_time_a_search_gives_what_it_has",
          "tests/workspace/searching/test_search.py::test_memory_stays_bounded"),
    shown(158, "P9", "Results come while a search goes on",
          "tests/builtin/test_grep.py::test_results_come_before_the_end_and_in_the_same_form",
          "tests/builtin/test_file_search.py::test_lines_are_shown_as_they_are_found"),
    # Validation
    shown(167, "P2", "Arguments are validated against the schema",
          "tests/pipeline/test_validate.py::test_every_mistake_is_told_at_once_with_its_true_place"),
    shown(168, "P2", "A wrong type is an error", "tests/core/test_schema_problems.py::test_the_words_of_each_problem"),
    shown(169, "P2", "A missing field is an error",
          "tests/pipeline/test_validate.py::test_the_description_of_a_missing_field_is_told"),
    shown(173, "T3", "A default is used where nothing is given",
          "tests/pipeline/test_validate.py::test_good_arguments_become_typed_parameters_with_defaults_filled_in"),
    shown(174, "T3", "The default stands in the schema",
          "tests/core/test_params.py::test_the_schema_shows_what_a_model_needs_and_no_titles"),
    shown(178, "T7", "A tool can check more than the schema says",
          "tests/core/test_describe.py::test_a_check_of_its_own_is_as_detailed_as_the_schemas"),
    shown(179, "T7", "Its errors are detailed",
          "tests/pipeline/test_validate.py::test_a_tools_own_check_is_as_detailed_as_the_schema"),
    # What the specification leaves for later
    shown(184, "O7", "MCP tools are loaded while running",
          "tests/mcp_client/test_servers.py::test_tools_come_and_go_while_in_use"),
    shown(185, "P7", "Results can be kept", "tests/pipeline/test_cache.py::test_the_same_call_runs_once"),
    shown(186, "P5", "Tools run at the same time",
          "tests/pipeline/test_batch.py::test_independent_calls_really_run_at_the_same_time"),
    shown(187, "P8", "Calls can be chained, and tools made of tools",
          "tests/pipeline/test_batch.py::test_a_call_may_use_an_earlier_calls_result",
          "tests/pipeline/test_composite.py::test_steps_use_the_input_and_each_others_results"),
]  # fmt: skip


def test_tools_that_ask_say_so() -> None:
    """T2: the flag is true exactly for the tools that ask."""
    flags = {one.name: one.requires_permission for one in builtin_tools()}
    assert {name: flags[name] for name in ("Read", "Glob", "Write", "Edit", "Bash")} == {
        "Read": False, "Glob": False, "Write": True, "Edit": True, "Bash": True,
    }  # fmt: skip


def make(name: str, answer: str) -> Any:
    def body() -> str:
        return answer

    return tool(body, name=name, kind="readonly", description="Answer. Use this to test.")


def test_a_name_that_is_taken_is_replaced_where_that_is_wanted() -> None:
    """R2."""
    refusing, replacing = Registry([make("answer", "old")]), Registry([make("answer", "old")], replace=True)
    with pytest.raises(NameTakenError):
        refusing.register(make("answer", "new"))
    replacing.register(make("answer", "new"))
    assert [Runtime(one).run_sync("answer").data for one in (refusing, replacing)] == ["old", "new"]
    refusing.register(make("answer", "new"), replace=True)
    assert Runtime(refusing).run_sync("answer").data == "new"


def test_many_threads_register_and_look_up() -> None:
    registry = Registry()
    missing: list[str] = []

    def work(number: int) -> None:
        for count in range(50):
            name = f"tool_{number}_{count}"
            registry.register(make(name, name))
            if registry.get(name) is None:
                missing.append(name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (missing, registry.size) == ([], 400)


class OneAnswer:
    async def complete(self, prompt: str) -> str:
        return f"{prompt}? Yes."


async def test_the_context_of_a_tool(desk: Desk) -> None:
    """T8."""

    @tool(kind="readonly", needs=("model", "user"))
    async def look(context: ToolContext) -> list[Any]:
        """Look. Use this to test."""
        context.state["times"] = context.state.get("times", 0) + 1
        said = await context.model_adapter.complete("Ready")
        caller = context.caller.user
        return [context.config["colour"], str(context.working_directory), context.model, said, context.state, caller]

    session = Session(
        workspace=desk.workspace, config={"colour": "blue"}, model="scripted/one", model_adapter=OneAnswer(),
        caller=Caller(user="ann"), state={"times": 4},
    )  # fmt: skip
    runtime = Runtime([look], session=session)
    await runtime.run("look")
    seen = (await runtime.run("look")).data
    assert seen == ["blue", str(desk.workspace), "scripted/one", "Ready? Yes.", {"times": 6}, "ann"]


async def test_a_write_makes_folders_once_it_is_approved(desk: Desk) -> None:
    """P4: nothing is made before the answer, not even a folder."""
    seen: list[list[str]] = []

    def ask(question: Any) -> str:
        seen.append(desk.names())
        return "once"

    runtime = Runtime(builtin_tools(), ask=ask, session=desk.session)
    assert (await runtime.run("Write", {"file_path": "a/b/c.txt", "content": "x"})).success
    assert seen == [[]]
    assert desk.names() == ["a", "a/b", "a/b/c.txt"]


async def test_what_a_command_wrote_and_how_it_ended(desk: Desk) -> None:
    async with desk.runtime:
        data = (await desk.runtime.run("Bash", {"command": "echo out; echo bad >&2; (exit 7)"})).data
    assert (data["stdout"], data["stderr"], data["exit_code"]) == ("out\n", "bad\n", 7)


async def test_a_command_is_stopped_with_all_it_started(desk: Desk) -> None:
    """P6: its children end too, and what it wrote before stays in the result."""
    seconds = f"6{os.getpid()}.5"  # a number by which its processes are known
    async with desk.runtime:
        command = f"sleep {seconds} & echo begun; sleep {seconds}"
        result = await desk.runtime.run("Bash", {"command": command, "timeout": 1000})
        assert result.error is not None
        assert result.error.kind is ErrorKind.TIMEOUT
        assert "begun" in result.llm_content
        ps = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert f"sleep {seconds}" not in ps


def test_lists_of_commands(desk: Desk) -> None:
    """S3."""
    policy = RulePolicy(allow=["Bash(git status)"], deny=["Bash(git push *)"], mode="dont-ask")
    runtime = Runtime(builtin_tools(), policy=policy, session=desk.session)

    def verdict(command: str) -> str:
        invocation = runtime.build(_bash(command))
        invocation.session = desk.session
        return policy.decide(invocation, desk.session).verdict.value

    assert [verdict(one) for one in ("git status", "git push origin", "cd x && git push origin")] == [
        "allow", "deny", "deny",
    ]  # fmt: skip
    refused = asyncio.run(runtime.run(_bash("git push origin")))
    assert "denies `git push origin`" in refused.llm_content


def _bash(command: str) -> RawCall:
    return RawCall("Bash", {"command": command})


def test_grep_filters_by_type_and_shows_lines_around(desk: Desk) -> None:
    for name in ("a.py", "a.js"):
        desk.put(name, "one\ntwo\nneedle\nfour\nfive\n")

    def lines(**around: int) -> list[str]:
        arguments = {"pattern": "needle", "type": "py", "output_mode": "content", **around}
        return asyncio.run(desk.runtime.run("Grep", arguments)).llm_content.splitlines()[1:]

    assert lines() == ["a.py:3:needle"]
    assert lines(**{"-A": 1}) == ["a.py:3:needle", "a.py-4-four"]
    assert lines(**{"-B": 1}) == ["a.py-2-two", "a.py:3:needle"]
    assert lines(**{"-C": 1}) == ["a.py-2-two", "a.py:3:needle", "a.py-4-four"]
