"""D: the chapter of a book that builds a tool system, behaviour by behaviour."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Field
from tests.cli.conftest import Command
from tests.sources.behaviours import shown
from tests.workspace.desk import Desk, refused

from ferrule import (
    Answer,
    Choice,
    Description,
    ErrorKind,
    Example,
    Kind,
    Question,
    Registry,
    Runtime,
    Tool,
    ToolContext,
    raw_tool,
    tool,
)
from ferrule.dialects import Exporter
from ferrule.tools import builtin_tools

SIX = {"Read": "readonly", "Edit": "write", "Write": "write", "Glob": "readonly", "Grep": "readonly", "Bash": "execute"}

BEHAVIOURS = [
    # What a tool is
    shown(17, "T9", "Tools read and change files",
          "tests/builtin/test_change_preview.py::test_the_preview_is_the_diff_of_what_the_call_then_does"),
    shown(18, "P1", "Tools run shell commands", "tests/builtin/test_bash.py::test_good_cases"),
    shown(19, "T3", "Tools search a code base", "tests/builtin/test_grep.py::test_good_cases"),
    shown(20, "T3", "Tools fetch web pages", "tests/toolbox/test_web.py::test_a_page_is_read_as_markdown"),
    # Types
    shown(71, "T1", "A read-only tool has no effects and is there in plan mode",
          "tests/registry/test_views.py::test_plan_mode_shows_only_read_only_tools"),
    shown(72, "P4", "A tool that writes needs confirmation",
          "tests/pipeline/test_authorise.py::test_without_a_policy_read_only_tools_run_and_those_that_write_or_execute_ask"),
    shown(73, "P4", "A tool that executes needs confirmation",
          "tests/pipeline/test_authorise.py::test_without_a_policy_read_only_tools_run_and_those_that_write_or_execute_ask"),
    shown(87, "T1", "An example has a description and parameters",
          "tests/core/test_docstring.py::test_examples_that_are_calls_are_kept_as_calls",
          "tests/core/test_lint.py::test_examples_must_be_calls_that_work"),
    shown(99, "T1", "A description has a short and a long text, usage notes, examples and important notes",
          "tests/core/test_description.py::test_the_layers_come_in_order"),
    shown(115, "T9", "Errors are of the types validation, execution, permission, timeout and unknown",
          "tests/core/test_errors.py::test_the_kinds_are_stable_words",
          better="There are two more error types, `not_found_error` and `cancelled_error`: what a model should do "
                 "next is different where a name is wrong and where a call was stopped."),
    shown(130, "T9", "An error has a type, a message and details",
          "tests/core/test_result.py::test_an_error_is_part_of_the_document"),
    shown(147, "T9", "A result has success, content for the model, content for the user, an error and metadata",
          "tests/core/test_result.py::test_a_result_is_one_plain_document"),
    shown(149, "T9", "The model gets the whole file and the user one line",
          "::test_the_model_gets_all_lines_and_the_user_one"),
    shown(154, "M2", "What the user sees begins with an icon",
          "tests/cli/chatting/test_call_view.py::test_each_ending_has_a_symbol_and_a_word",
          better="`display_content` is only what came of a call. The icon, the colour and what was called (`✓ Read "
                 "a.py — read 3 lines`) come from the terminal, the editor or the panel that shows it, so that it "
                 "also reads well in a log and aloud."),
    shown(162, "T8", "A tool runs with a session id, a signal that cancels and a working directory",
          "::test_the_context_has_the_session_the_signal_and_the_folder"),
    shown(177, "T10", "A declaration has a name, a description and an object of parameters",
          "tests/dialects/test_openai_chat.py::test_a_definition"),
    shown(190, "T5", "An invocation has the tool's name, the parameters and a call id",
          "::test_an_invocation_is_built_apart_from_its_run"),
    shown(207, "T1", "A tool has a name, a display name, a kind, a version, a category and tags",
          "tests/core/test_tool.py::test_what_a_tool_is_when_nothing_is_said"),
    shown(216, "T2", "A tool says whether it only reads, may run beside others, and wants strict output",
          "tests/core/test_tool.py::test_options_come_from_the_class_and_from_the_call"),
    shown(231, "T5", "A tool gives its declaration, builds an invocation and executes it",
          "tests/pipeline/test_run.py::test_build_validates_and_execute_runs",
          "tests/pipeline/test_run.py::test_a_tool_builds_its_own_invocation",
          better="A tool does not execute itself: `execute` is the runtime's, so that no call passes by the "
                 "permission, the time limit and the record."),
    shown(238, "T6", "A tool may give the signature of a call and a rule for always allowing it",
          "tests/core/test_describe.py::test_a_tool_says_of_its_calls_what_it_is_told_to"),
    # The factory
    shown(651, "T3", "One declaration gives static types, validation and the JSON Schema",
          "tests/core/test_params.py::test_text_becomes_a_typed_value_with_defaults",
          "tests/core/test_plain_schema.py::test_what_is_written_is_what_pydantic_writes"),
    shown(655, "P2", "A number where text is wanted can be refused", "::test_a_number_for_text_can_be_refused"),
    shown(704, "T4", "A factory takes a configuration with a schema and a function",
          "::test_a_factory_takes_a_schema_and_a_function", "::test_a_raw_tool_takes_a_schema_of_either_kind"),
    shown(714, "T1", "Every tool has a kind and a description", "tests/core/test_lint.py::test_descriptions",
          better="A function without a kind or a docstring is a tool too, so that trying one takes two lines: "
                 "`ferrule lint` reports what is missing, and without a kind it counts as `execute` wherever "
                 "someone else calls it."),
    shown(766, "T1", "The version is 1.0.0, the tags are none and the display name is the name unless given",
          "tests/core/test_tool.py::test_what_a_tool_is_when_nothing_is_said"),
    shown(771, "T2", "A tool may run beside others and is not strict unless it says so",
          "tests/core/test_tool.py::test_what_a_tool_is_when_nothing_is_said"),
    shown(776, "T10", "The schema that a model gets has no references", "::test_a_schema_is_written_out",
          "tests/dialects/test_inline.py::test_a_reference_is_written_out_and_its_own_description_wins"),
    shown(790, "T2", "A tool only reads if its kind says so, unless it is set",
          "tests/core/test_tool.py::test_read_only_follows_from_the_kind_unless_said"),
    shown(804, "T10", "A declaration has only the properties and those that are required",
          "tests/dialects/test_openai_chat.py::test_a_definition",
          better="A definition also says that no other field is accepted (`additionalProperties: false`), so that a "
                 "model that makes one up is told the right name."),
    shown(829, "P2", "Parameters are validated before the function runs",
          "tests/pipeline/test_validate.py::test_every_mistake_is_told_at_once_with_its_true_place"),
    shown(834, "P2", "A validation error names each field and what is wrong with it, and lists them in its details",
          "::test_a_validation_error_lists_every_field"),
    shown(841, "T9", "The user's line names what is wrong with the parameters",
          "::test_the_users_line_names_the_first_problem"),
    shown(849, "P1", "Whatever else is raised is an execution error with its message",
          "tests/pipeline/test_execute.py::test_whatever_a_tool_raises_is_a_result",
          better="The message of an exception that was not written for a model is cleaned first: no traceback, no "
                 "secret and no folder of the machine."),
    shown(870, "T1", "The text for the model is short, long, usage notes and important notes, each a list",
          "tests/core/test_description.py::test_the_layers_come_in_order"),
    shown(879, "T1", "Examples reach the model", "::test_examples_reach_the_model",
          "::test_examples_are_shown_to_users"),
    # Read
    shown(1343, "T3", "Read gives 2000 lines unless told otherwise", "::test_metadata_of_read"),
    shown(1346, "P2", "Read refuses an empty path", "::test_an_empty_path_is_a_validation_error"),
    shown(1349, "P2", "Read takes an offset from 0 and a limit from 1 to 10000, both whole numbers",
          "tests/builtin/test_read.py::test_a_page_that_cannot_be_is_refused"),
    shown(1366, "T1", "Each of the six tools has a title for users", "::test_each_tool_has_a_title"),
    shown(1374, "S1", "Paths are absolute", "::test_paths_may_be_relative",
          better="A path may be relative to the working directory: it is shorter, and the same in every checkout."),
    shown(1378, "P5", "Several files can be read at the same time",
          "tests/builtin/test_read.py::test_many_reads_at_once"),
    shown(1403, "T9", "A file that is missing is an error that names it",
          "tests/builtin/test_read.py::test_a_missing_file_is_answered_with_the_nearest_names"),
    shown(1418, "T9", "A directory is a validation error", "::test_a_directory_is_a_validation_error"),
    shown(1430, "T3", "A file is read as UTF-8",
          "tests/builtin/test_read.py::test_any_encoding_and_line_ending_is_read_as_text",
          better="A file in any encoding is read as text and written back as it was, a picture is shown, and a "
                 "notebook comes as cells; a decoder that replaces what it cannot read would damage the file at the "
                 "next edit."),
    shown(1432, "T3", "The lines of a file are counted", "::test_a_final_newline_is_no_line",
          better="A newline at the end of a file ends its last line and is not counted as an empty one, as in `wc "
                 "-l`."),
    shown(1438, "T3", "Each line has its number, from 1 and six characters wide",
          "tests/builtin/test_read.py::test_lines_are_numbered_from_one",
          better="A line's number is followed by a tab, as `cat -n` writes it: models know that form, and it is the "
                 "one that the coding agent uses."),
    shown(1443, "T3", "A result says whether there is more",
          "tests/builtin/test_read.py::test_a_page_says_how_to_read_on"),
    shown(1448, "T9", "The user's line names the lines that were read and how many there are",
          "::test_the_users_line_has_the_range"),
    shown(1459, "T9", "The metadata has file_path, total_lines, lines_read, offset and has_more",
          "::test_metadata_of_read"),
    shown(1460, "T9", "The metadata has the path as it was given", "::test_a_path_is_shown_as_it_was_given"),
    shown(1467, "P1", "A file that cannot be read is a failed result",
          "tests/builtin/test_path_attacks.py::test_what_may_not_be_read_is_said_to_be"),
    # Edit
    shown(1818, "P11", "A text is replaced by another, not lines by their numbers",
          "tests/builtin/test_edit.py::test_it_says_what_it_changed"),
    shown(1827, "T3", "Edit takes file_path, old_string, new_string and replace_all, which is false unless given",
          "tests/builtin/test_edit.py::test_what_a_model_reads_of_it"),
    shown(1847, "P11", "A file has to be read before it is edited",
          "tests/workspace/test_tracker.py::test_a_file_that_was_not_read_is_not_changed"),
    shown(1850, "T3", "Indentation is kept as it stands",
          "tests/builtin/test_edit.py::test_what_stands_there_is_replaced_to_the_letter",
          better="A copy that lost its indentation, its line endings or its quotes on the way is still found where "
                 "only one place can be meant, and the result says how; a model need not read the file once more "
                 "for a blank."),
    shown(1881, "T6", "The signature of an edit is its path", "::test_signatures_and_rules"),
    shown(1886, "T6", "The rule of an edit is for the folder", "::test_signatures_and_rules",
          "tests/policy/test_always.py::test_a_write_offers_its_real_folder"),
    shown(1897, "T9", "Editing a directory is a validation error", "::test_a_directory_is_a_validation_error"),
    shown(1908, "T9", "Editing a file that is missing is an error that names it",
          "::test_equal_texts_and_a_missing_file_are_told_apart"),
    shown(1922, "T9", "Equal texts are a validation error", "::test_equal_texts_and_a_missing_file_are_told_apart"),
    shown(1935, "T9", "A text that is not in the file is a validation error",
          "::test_a_text_that_is_not_there_is_a_validation_error"),
    shown(1947, "T9", "Several matches are a validation error with their number and what to do",
          "::test_several_matches_are_a_validation_error"),
    shown(1961, "T3", "replace_all changes every match, and otherwise the one there is changes",
          "tests/builtin/test_edit.py::test_replace_all_changes_every_place"),
    shown(1963, "T3", "The new text is taken literally", "::test_the_new_text_is_taken_literally",
          better="A `$&` or `$1` in a new text means itself; a replacement that gave it a meaning would write "
                 "something else than the user was shown."),
    shown(1970, "T9", "A result says how many places were changed",
          "tests/builtin/test_edit.py::test_it_says_what_it_changed"),
    shown(1972, "T9", "The metadata has file_path and replacements", "::test_metadata_of_edit"),
    shown(1975, "T9", "The metadata has the first 50 characters of the old text",
          "::test_metadata_of_edit_has_the_old_text"),
    # Write
    shown(2407, "T3", "Write takes contents", "tests/builtin/test_write.py::test_contents_is_taken_for_content"),
    shown(2419, "T3", "Write replaces a file that exists", "::test_write_creates_and_overwrites",
          better="A file that exists is overwritten only if it was read in this session and is unchanged since: "
                 "nothing that a model has not seen is lost."),
    shown(2420, "T1", "A model is told to prefer Edit for a small change",
          "tests/builtin/test_write.py::test_what_a_model_reads_of_it"),
    shown(2432, "T6", "Signature and rule of a write are its path and its folder", "::test_signatures_and_rules"),
    shown(2446, "T3", "Folders that are missing are made", "::test_write_creates_and_overwrites"),
    shown(2448, "T9", "A result says whether a file was created or overwritten", "::test_write_creates_and_overwrites"),
    shown(2463, "T9", "The metadata has file_path, is_overwrite, line_count and byte_count",
          "::test_metadata_of_write"),
    # Glob
    shown(2698, "T3", "Glob takes a pattern that is not empty, and a path", "::test_patterns_of_searches"),
    shown(2714, "T3", "A pattern fits at any depth", "::test_a_pattern_with_a_slash_fits_at_any_depth",
          "tests/builtin/test_glob.py::test_good_cases"),
    shown(2715, "T3", "The files are sorted by the time of their last change",
          "tests/workspace/searching/test_search_by_name.py::test_the_newest_come_first_and_all_are_shown_as_they_come"),
    shown(2724, "T3", "`**/test/*.ts` finds the files of test folders", "::test_patterns_of_searches"),
    shown(2729, "R3", "Glob and Grep are in a category for searching", "::test_categories_and_tags",
          better="Glob and Grep are in the category `files` and have the tag `search`: the category says what a "
                 "tool works on, a tag what it does."),
    shown(2733, "T3", "The search starts in the working directory unless a path is given",
          "tests/builtin/test_glob.py::test_good_cases",
          better="A folder that does not exist is an error with the nearest names; no files found would say that it "
                 "is empty."),
    shown(2738, "T3", "Folders are no results, and node_modules and .git are left out",
          "tests/workspace/searching/test_ignore_files.py::test_git_and_node_modules_never_count_and_hidden_files_do"),
    shown(2742, "T3", "Results are relative to the folder that was searched", "::test_results_can_be_passed_on",
          better="Paths in results are relative to the working directory whatever folder was searched, so that the "
                 "next call can take them as they are."),
    shown(2743, "T3", "No match is a success that says so, with a count of 0", "::test_no_match_is_a_success"),
    shown(2755, "T9", "The metadata of Glob has pattern, count and the folder", "::test_metadata_of_searches",
          "::test_metadata_of_glob_has_the_folder"),
    # Grep
    shown(2978, "T3", "Grep takes a regular expression that is not empty", "::test_patterns_of_searches"),
    shown(2981, "T3", "Grep searches a directory or a file", "tests/builtin/test_grep.py::test_good_cases"),
    shown(2984, "T3", "`include` chooses files by a glob", "::test_include_chooses_files"),
    shown(2999, "T3", "Results are capped", "tests/builtin/test_grep.py::test_much_is_cut_and_said"),
    shown(3020, "S3", "The pattern reaches the search program whatever it holds",
          "::test_a_pattern_is_never_a_command"),
    shown(3032, "T9", "Grep gives the lines that match", "tests/builtin/test_grep.py::test_good_cases",
          better="Grep lists the files first and gives the lines for `output_mode: content`: the names are what a "
                 "model needs to choose from, and take far less room."),
    shown(3043, "T9", "The metadata of Grep has pattern and count", "::test_metadata_of_searches"),
    shown(3048, "T3", "No match of Grep is a success with a count of 0", "::test_no_match_is_a_success"),
    shown(3059, "T9", "A search that fails is an error", "tests/builtin/test_grep.py::test_bad_cases",
          better="A pattern that is no regular expression is a `validation_error` that says where it breaks and how "
                 "to escape it: the argument is wrong, not the search."),
    # Bash
    shown(3314, "P2", "Bash refuses an empty command", "tests/builtin/test_bash.py::test_bad_cases"),
    shown(3317, "T9", "What a command is for is shown to the user",
          "::test_a_result_says_which_command_it_was_and_what_for"),
    shown(3320, "P6", "A command has 120000 ms unless given, and at most 600000",
          "tests/sources/test_c.py::test_a_longer_timeout_is_refused", "tests/builtin/test_bash.py::test_bad_cases"),
    shown(3324, "T3", "A command can run in another working directory", "::test_a_command_runs_in_a_working_directory"),
    shown(3334, "T2", "Bash is not safe beside other calls",
          "tests/pipeline/test_schedule.py::test_a_folder_is_touched_with_what_lies_in_it_and_not_with_its_neighbours",
          "::test_bash_says_that_it_runs_alone"),
    shown(3339, "T1", "A model is told to use the tools for files instead",
          "tests/builtin/test_bash.py::test_what_a_model_reads_of_it"),
    shown(3356, "P6", "A command cannot wait for input for ever",
          "tests/builtin/test_bash.py::test_one_that_waits_for_input_without_a_terminal_says_what_to_do"),
    shown(3364, "T6", "The signature of a command is its text", "::test_signatures_and_rules"),
    shown(3371, "S2", "Commands that destroy a disk or everything are stopped with a permission error",
          "::test_s2_a_destructive_command_never_runs_unasked",
          better="A dangerous command asks where a user can answer and is refused where none can, instead of always "
                 "being refused, because users sometimes want exactly that."),
    shown(3376, "S2", "Removing one folder by force is not blocked",
          "tests/policy/test_decide.py::test_a_dangerous_command_asks_even_under_an_allow_rule"),
    shown(3392, "P6", "A command is stopped when its time is up, with all that it started",
          "tests/builtin/test_process_cases.py::test_it_holds"),
    shown(3395, "P10", "Long output is bounded",
          "tests/builtin/test_process_cases.py::test_memory_stays_flat_in_a_flood"),
    shown(3396, "T3", "Commands run in bash", "tests/builtin/test_bash.py::test_good_cases"),
    shown(3400, "T9", "A model reads standard output and then standard error under a mark",
          "::test_standard_error_is_marked"),
    shown(3406, "T9", "A command without output says so", "tests/builtin/test_bash.py::test_good_cases"),
    shown(3410, "T9", "The metadata of Bash has exit_code and working_directory",
          "::test_a_command_runs_in_a_working_directory"),
    shown(3411, "T9", "The metadata of Bash has the command", "::test_a_result_says_which_command_it_was_and_what_for"),
    shown(3426, "T9", "A command that takes too long is a timeout error",
          "::test_a_command_that_takes_too_long_is_a_timeout_error"),
    shown(3438, "T9", "A command that fails is an execution error with its exit code and its output",
          "::test_a_failing_command_is_an_execution_error"),
    # All of them
    shown(3839, "T3", "All built-in tools can be had in a list", "::test_the_six_tools_and_their_kinds",
          "::test_the_list_has_no_tool_twice_under_two_names"),
    # The registry
    shown(3946, "R5", "An event carries the tool", "::test_an_event_carries_the_tool"),
    shown(3963, "R2", "A name that is taken is refused",
          "tests/registry/test_registry.py::test_a_taken_name_is_refused_and_nothing_changes"),
    shown(3969, "R5", "Registering and unregistering are events with the origin",
          "tests/registry/test_registry.py::test_every_change_is_an_event_with_its_origin",
          better="An event says `builtin`, `plugin`, `mcp` or `dynamic` as its origin, because a tool can come from "
                 "more than two places, and there are events for switching and replacing too."),
    shown(3974, "R8", "Tools of an MCP server are registered as such and share the names",
          "tests/mcp_client/test_servers.py::test_tools_of_both_eras_join_and_run",
          "tests/mcp_client/test_servers.py::test_a_name_that_is_taken_stays_with_its_owner"),
    shown(3985, "R1", "Many tools are registered at once",
          "tests/registry/test_registry.py::test_many_are_registered_or_none",
          better="Many tools are registered all or none: a name that is taken does not leave half of them behind."),
    shown(3993, "R8", "Unregistering says whether there was a tool",
          "tests/registry/test_registry.py::test_unregistering_removes_and_says_whether_there_was_one",
          better="Every tool can be unregistered, not only those of MCP servers: plugins and folders change while a "
                 "server runs."),
    shown(4004, "R1", "A tool that is absent is None", "tests/registry/test_registry.py::test_an_absent_tool_is_none"),
    shown(4010, "R1", "A registry says whether a tool is there, how many there are, and lists all",
          "::test_a_registry_answers_the_questions_of_the_book"),
    shown(4022, "R3", "The read-only tools and the others can be listed",
          "tests/registry/test_views.py::test_plan_mode_shows_only_read_only_tools"),
    shown(4034, "T10", "The declarations of all tools can be had",
          "tests/dialects/test_exporter.py::test_names_go_out_and_come_back"),
    shown(4042, "R4", "In plan mode the declarations are of read-only tools", "::test_declarations_by_mode"),
    shown(4051, "R3", "Search looks at the name, the display name and the short description, in any case",
          "tests/registry/test_search.py::test_the_exact_name_comes_first_then_names_then_descriptions",
          better="A search also looks at the rest of the description, the parameters, the tags and the category, takes "
                 "sentences and misspelt words, and gives the best 20 first to last, or as many as `most` says."),
    shown(4068, "R3", "Tools are found by category and tag, also after a change",
          "tests/registry/test_source.py::test_tools_are_found_by_category_and_tag",
          "tests/registry/test_source.py::test_indexes_follow_every_change"),
    # Names that are exported
    shown(4533, "X9", "Types, factory, registry and built-ins are exported",
          "tests/test_public_api.py::test_every_public_name_is_there_and_listed"),
    # In an agent
    shown(4649, "M1", "An agent registers the built-in tools when it starts",
          "tests/app/test_assistant.py::test_it_knows_where_it_is_and_has_the_standard_tools"),
    shown(4755, "R4", "In plan mode an agent is shown read-only tools alone",
          "tests/agent/test_turn.py::test_plan_mode_shows_and_runs_read_only_tools_alone"),
    shown(4808, "P2", "Arguments that are no JSON are a failed result",
          "tests/pipeline/test_validate.py::test_text_that_is_not_json_is_refused_in_words"),
    shown(4818, "P2", "An unknown tool is a failed result",
          "tests/pipeline/test_lookup.py::test_an_unknown_tool_is_answered_with_the_nearest_names"),
    shown(4828, "T8", "A call runs with the session, the signal and the folder of its agent",
          "tests/agent/test_turn.py::test_the_session_knows_the_turn_and_the_model",
          "tests/agent/test_turn.py::test_an_interrupt_cancels_running_calls_and_keeps_what_was_done"),
    shown(4835, "M1", "The model reads the content for it, and the user sees the other",
          "tests/agent/test_turn.py::test_a_refused_call_is_told_to_the_model_with_the_person_s_reason"),
    shown(4932, "T3", "Six tools have the kinds readonly, write and execute", "::test_the_six_tools_and_their_kinds"),
    shown(4950, "O7", "Tools of MCP servers are tools", "tests/mcp_client/test_servers.py::test_results_pass_through"),
    # What later chapters add
    shown(4971, "P11", "A snapshot is kept before a file changes",
          "tests/workspace/snapshots/test_planning.py::test_the_old_content_is_kept_before_anything_changes"),
    shown(4972, "P11", "Which files were read is tracked",
          "tests/workspace/test_tracker.py::test_a_file_that_changed_since_is_not_changed_and_the_lines_are_named"),
    shown(4973, "P11", "Background shells are listed, read and stopped",
          "tests/builtin/test_bash_output.py::test_each_reading_goes_on_where_the_last_one_ended",
          "tests/builtin/test_kill_shell.py::test_it_ends_all_that_the_command_started_and_nothing_else",
          "tests/cli/test_shells.py::test_another_programs_commands_are_listed_read_and_stopped"),
    shown(4974, "R8", "MCP tools come and go while in use",
          "tests/mcp_client/test_servers.py::test_tools_come_and_go_while_in_use"),
    shown(4975, "P4", "The user confirms a write",
          "tests/cli/test_ask.py::test_what_would_change_in_a_file_is_shown_before_it_changes"),
    shown(4988, "P1", "A pipeline of seven stages runs each call",
          "tests/core/test_errors.py::test_the_stages_are_seven_in_order"),
    shown(4990, "P4", "Only a clear yes confirms", "::test_an_invalid_answer_keeps_nothing",
          "::test_s2_always_covers_no_dangerous_command"),
]  # fmt: skip

BY_NAME = {one.name: one for one in builtin_tools()}


async def yes(question: Question) -> Answer:
    return Answer(Choice.ONCE)


def test_the_model_gets_all_lines_and_the_user_one(desk: Desk) -> None:
    """T9: two texts, one long and one short."""
    desk.put("a.txt", "".join(f"line {number}\n" for number in range(1000)))
    result = desk.read("a.txt")
    assert result.llm_content.count("\n") == 999
    assert result.display_content == "read 1,000 lines"


async def test_the_context_has_the_session_the_signal_and_the_folder(desk: Desk) -> None:
    """T8."""
    seen: list[Any] = []

    @tool(kind="readonly")
    def look(context: ToolContext) -> str:
        """Look at the context. Use this to test."""
        seen.extend((context.session_id, context.working_directory, context.cancelled, context.call_id))
        return "seen"

    result = await Runtime([look], session=desk.session).run("look", {})
    assert seen == [desk.session.id, desk.workspace, False, result.call_id]


def test_an_invocation_is_built_apart_from_its_run() -> None:
    invocation = BY_NAME["Read"].build({"file_path": "a.txt"}, call_id="call_7")
    assert (invocation.tool.name, invocation.params.file_path, invocation.call_id) == ("Read", "a.txt", "call_7")


@tool(kind="readonly")
def repeat_text(text: str, times: int = 1) -> str:
    """Repeat a text. Use this to test."""
    return text * times


def test_a_number_for_text_can_be_refused() -> None:
    """P2: `repair=False` for a tool and for a runtime."""
    strict: Any = tool(repeat_text.function, repair=False)  # type: ignore[call-overload]
    for runtime in (Runtime([strict]), Runtime([repeat_text], repair=False)):  # type: ignore[call-arg]
        result = runtime.run_sync("repeat_text", {"text": 123})
        assert result.error is not None
        assert result.error.kind is ErrorKind.VALIDATION
        assert "text" in result.error.message


class SearchParams(BaseModel):
    query: str = Field(description="What to search for")
    most: int = Field(default=10, ge=1)


async def test_a_factory_takes_a_schema_and_a_function() -> None:
    """T4: the parameters are one value for the function, and one level for the model."""

    async def execute(params: SearchParams, context: ToolContext) -> str:
        return f"{params.query} {params.most} {context.tool}"

    search: Tool[Any] = tool(
        schema=SearchParams, execute=execute, name="SearchNotes", kind="readonly", display_name="Note Search",
        description=Description("Search the notes.", usage_notes=("Words are found in any order.",)),
    )  # type: ignore[call-overload]  # fmt: skip
    schema = search.input_schema
    assert isinstance(schema, dict)
    assert schema["required"] == ["query"]
    assert (await Runtime([search]).run("SearchNotes", {"query": "ferrule"})).data == "ferrule 10 SearchNotes"


def test_a_schema_is_written_out() -> None:
    @tool(kind="readonly")
    def search_all(first: SearchParams, second: SearchParams) -> str:
        """Search twice. Use this to test."""
        return first.query + second.query

    for provider in ("openai", "anthropic", "gemini"):
        assert "$ref" not in str(Exporter(provider).definitions([search_all]))


def test_a_validation_error_lists_every_field() -> None:
    result = Runtime([repeat_text]).run_sync("repeat_text", {"text": ["a"], "times": "many"})
    assert result.error is not None
    assert result.error.kind is ErrorKind.VALIDATION
    problems = dict(result.error.details or {})["problems"]
    assert [one["path"] for one in problems] == ["text", "times"]
    assert all(one["message"] in result.llm_content for one in problems)


def test_the_users_line_names_the_first_problem() -> None:
    result = Runtime([repeat_text]).run_sync("repeat_text", {"text": ["a"], "times": "many"})
    assert "text" in result.display_content.replace("repeat_text", "")


def test_examples_reach_the_model() -> None:
    """T1: in the provider's own field where it has one, and else below the notes."""
    examples = (Example("repeat a word", {"text": "ha", "times": 3}),)
    shown_tool = tool(repeat_text.function, description=Description("Repeat a text.", examples=examples))
    (anthropic,) = Exporter("anthropic").definitions([shown_tool])
    assert anthropic["input_examples"] == [{"text": "ha", "times": 3}]
    (openai,) = Exporter("openai").definitions([shown_tool])
    assert "Examples:" in openai["function"]["description"]
    assert "repeat a word" in openai["function"]["description"]


def test_an_empty_path_is_a_validation_error(desk: Desk) -> None:
    needed = {"Read": {}, "Write": {"content": "x"}, "Edit": {"old_string": "a", "new_string": "b"}}
    for name, more in needed.items():
        result = desk.call(name, "", **more)
        assert result.error is not None
        assert result.error.kind is ErrorKind.VALIDATION


def test_each_tool_has_a_title() -> None:
    titles = {name: BY_NAME[name].display_name for name in SIX}
    assert titles == {
        "Read": "File Read", "Edit": "File Edit", "Write": "File Write", "Glob": "File Search",
        "Grep": "Content Search", "Bash": "Shell Command",
    }  # fmt: skip


def test_paths_may_be_relative(desk: Desk) -> None:
    file = desk.put("sub/a.txt", "x\n")
    assert desk.read("sub/a.txt").data["content"] == desk.read(str(file)).data["content"]


def test_a_directory_is_a_validation_error(desk: Desk) -> None:
    (desk.workspace / "src").mkdir()
    for result in (desk.read("src"), desk.edit("src", "a", "b")):
        assert refused(result, "directory").error.kind is ErrorKind.VALIDATION  # type: ignore[union-attr]


def test_a_final_newline_is_no_line(desk: Desk) -> None:
    desk.put("a.txt", "one\ntwo\n")
    desk.put("b.txt", "one\ntwo")
    assert [desk.read(name).metadata["total_lines"] for name in ("a.txt", "b.txt")] == [2, 2]


def test_the_users_line_has_the_range(desk: Desk) -> None:
    desk.put("a.txt", "x\n" * 400)
    said = desk.read("a.txt", offset=100, limit=50).display_content
    assert "101" in said
    assert "150" in said
    assert "400" in said


def test_metadata_of_read(desk: Desk) -> None:
    desk.put("a.txt", "one\ntwo\nthree\n")
    metadata = desk.read("a.txt", offset=1, limit=1).metadata
    found = {key: metadata[key] for key in ("file_path", "offset", "total_lines", "lines_read", "has_more")}
    assert found == {"file_path": "a.txt", "offset": 1, "total_lines": 3, "lines_read": 1, "has_more": True}
    desk.put("b.txt", "x\n" * 2500)
    assert desk.read("b.txt").metadata["lines_read"] == 2000


def test_a_path_is_shown_as_it_was_given(desk: Desk) -> None:
    file = desk.put("a.txt", "one\n")
    assert desk.read(str(file)).metadata["file_path"] == str(file)
    assert desk.read("./a.txt").metadata["file_path"] == "./a.txt"
    assert "notes" not in desk.read("a.txt").data  # there are none


def test_signatures_and_rules(desk: Desk) -> None:
    file = desk.put("src/a.ts", "x")
    for name, more in (("Edit", {"old_string": "a", "new_string": "b"}), ("Write", {"content": "x"})):
        invocation = BY_NAME[name].build({"file_path": "src/a.ts", **more})
        invocation.session = desk.session
        assert invocation.signature == str(file)
        assert invocation.always_rule == f"{name}:{file.parent}/*"
    assert BY_NAME["Bash"].build({"command": "npm test"}).signature == "npm test"


def test_equal_texts_and_a_missing_file_are_told_apart(desk: Desk) -> None:
    assert "`none.txt`" in refused(desk.edit("none.txt", "a", "b"), "missing").llm_content
    desk.seen("a.txt", "one\n")
    assert refused(desk.edit("a.txt", "one", "one"), "identical").error.kind is ErrorKind.VALIDATION  # type: ignore[union-attr]


def test_a_text_that_is_not_there_is_a_validation_error(desk: Desk) -> None:
    desk.seen("a.txt", "one\n")
    result = desk.edit("a.txt", "nowhere to be seen", "x")
    assert result.error is not None
    assert result.error.kind is ErrorKind.VALIDATION


def test_several_matches_are_a_validation_error(desk: Desk) -> None:
    desk.seen("a.txt", "one\none\n")
    result = refused(desk.edit("a.txt", "one", "x"), "several")
    assert result.error is not None
    assert dict(result.error.details or {})["count"] == 2
    assert "replace_all" in result.llm_content
    assert result.error.kind is ErrorKind.VALIDATION


def test_the_new_text_is_taken_literally(desk: Desk) -> None:
    desk.seen("a.txt", "price\n")
    assert desk.edit("a.txt", "price", "$1 and $& and \\1").success
    assert desk.bytes_of("a.txt") == b"$1 and $& and \\1\n"


def test_metadata_of_edit(desk: Desk) -> None:
    desk.seen("a.txt", "a a\n")
    metadata = desk.edit("a.txt", "a", "b", replace_all=True).metadata
    assert (metadata["file_path"], metadata["replacements"]) == ("a.txt", 2)


def test_metadata_of_edit_has_the_old_text(desk: Desk) -> None:
    desk.seen("a.txt", "x" * 60 + "\nshort\n")
    assert desk.edit("a.txt", "short", "y").metadata["old_string_preview"] == "short"
    preview = desk.edit("a.txt", "x" * 60, "z").metadata["old_string_preview"]
    assert preview.startswith("x" * 50)
    assert len(preview) < 60


def test_write_creates_and_overwrites(desk: Desk) -> None:
    assert desk.write("new/folder/a.txt", "one\n").llm_content == "Created `new/folder/a.txt` (1 line, 4 bytes)."
    assert desk.write("new/folder/a.txt", "é\n").llm_content == "Overwrote `new/folder/a.txt` (1 line, 3 bytes)."
    desk.put("b.txt", "unread")
    assert not desk.write("b.txt", "lost").success


def test_metadata_of_write(desk: Desk) -> None:
    metadata = desk.write("a.txt", "é\nb\n").metadata
    found = {key: metadata[key] for key in ("file_path", "is_overwrite", "line_count", "byte_count")}
    assert found == {"file_path": "a.txt", "is_overwrite": False, "line_count": 2, "byte_count": 5}


def run(desk: Desk, name: str, **arguments: Any) -> Any:
    return asyncio.run(desk.runtime.run(name, arguments))


def test_patterns_of_searches(desk: Desk) -> None:
    for name in ("Glob", "Grep"):
        assert run(desk, name, pattern="").error.kind is ErrorKind.VALIDATION
    for name in ("src/test/a.ts", "test/b.ts", "src/c.ts"):
        desk.put(name, "x")
    assert sorted(run(desk, "Glob", pattern="**/test/*.ts").data["files"]) == ["src/test/a.ts", "test/b.ts"]


def test_a_pattern_with_a_slash_fits_at_any_depth(desk: Desk) -> None:
    desk.put("src/core/a.ts", "x")
    desk.put("src/b.ts", "x")
    assert run(desk, "Glob", pattern="core/*.ts").data["files"] == ["src/core/a.ts"]
    assert run(desk, "Glob", pattern="src/*.ts").data["files"] == ["src/b.ts"]


def test_results_can_be_passed_on(desk: Desk) -> None:
    desk.put("src/a.ts", "needle\n")
    (found,) = run(desk, "Glob", pattern="*.ts", path="src").data["files"]
    assert desk.read(found).success
    assert desk.read(run(desk, "Grep", pattern="needle", path="src").data["files"][0]["path"]).success


def test_no_match_is_a_success(desk: Desk) -> None:
    desk.put("a.txt", "x\n")
    for name, pattern in (("Glob", "*.none"), ("Grep", "nowhere")):
        result = run(desk, name, pattern=pattern)
        assert (result.success, result.metadata["count"], pattern in result.llm_content) == (True, 0, True)


def test_metadata_of_searches(desk: Desk) -> None:
    desk.put("src/a.txt", "x\n")
    for name, pattern in (("Glob", "*.txt"), ("Grep", "x")):
        metadata = run(desk, name, pattern=pattern, path="src").metadata
        found = {key: metadata[key] for key in ("pattern", "path", "count")}
        assert found == {"pattern": pattern, "path": "src", "count": 1}


def test_metadata_of_glob_has_the_folder(desk: Desk) -> None:
    desk.put("src/a.txt", "x\n")
    assert run(desk, "Glob", pattern="*.txt", path="src").metadata["cwd"].endswith("src")


def test_include_chooses_files(desk: Desk) -> None:
    desk.put("a.ts", "import x\n")
    desk.put("a.py", "import x\n")
    found = run(desk, "Grep", pattern="import", include="*.ts", output_mode="content")
    assert found.llm_content.endswith("a.ts:1:import x")
    assert run(desk, "Grep", pattern=r"imp\w+\s+x").data["count"] == 2


def test_a_pattern_is_never_a_command(desk: Desk) -> None:
    """S3: quotes, substitutions and options in a pattern are text."""
    desk.put("a.txt", 'say "$(touch made)" --files\n')
    assert run(desk, "Grep", pattern=r'"\$\(touch made\)"').data["count"] == 1
    assert run(desk, "Grep", pattern="--files").data["count"] == 1
    assert desk.names() == ["a.txt"]


async def test_a_result_says_which_command_it_was_and_what_for(desk: Desk) -> None:
    async with desk.runtime:
        result = await desk.runtime.run("Bash", {"command": "true", "description": "Check the weather"})
    assert "Check the weather" in result.display_content
    assert result.metadata["command"] == "true"


async def test_a_command_runs_in_a_working_directory(desk: Desk) -> None:
    (desk.workspace / "src").mkdir()
    async with desk.runtime:
        result = await desk.runtime.run("Bash", {"command": "pwd", "working_directory": "src"})
    assert result.data["stdout"] == f"{desk.workspace}/src\n"
    assert (result.metadata["exit_code"], result.metadata["working_directory"]) == (0, f"{desk.workspace}/src")


def test_bash_says_that_it_runs_alone() -> None:
    assert {name: BY_NAME[name].concurrency_safe for name in ("Read", "Bash")} == {"Read": True, "Bash": False}


@pytest.mark.parametrize(
    "command", ["rm -rf /", "echo x > /dev/sda", "mkfs.ext4 /dev/sda1", "dd if=/dev/zero of=/dev/sda"]
)
async def test_s2_a_destructive_command_never_runs_unasked(command: str, desk: Desk) -> None:
    """Where nobody can be asked it is refused before it is tried, also by a runtime that has no policy."""
    async with Runtime(builtin_tools(), session=desk.session) as runtime:
        result = await runtime.run("Bash", {"command": command})
    assert result.error is not None
    assert (result.error.kind, result.metadata["stage"]) == (ErrorKind.PERMISSION, "confirm")


async def test_an_invalid_answer_keeps_nothing(desk: Desk) -> None:
    """P4: an answer of the program that is none is a refusal, also about what a command that was tried changed."""
    async with Runtime(builtin_tools(), ask=lambda question: "maybe", session=desk.session) as runtime:
        result = await runtime.run("Bash", {"command": "touch made"})
    assert result.error is not None
    assert result.error.kind is ErrorKind.PERMISSION
    assert "must answer `once`, `always` or `no`" in (result.error.suggestion or "")
    assert desk.names() == []


async def test_s2_always_covers_no_dangerous_command(desk: Desk) -> None:
    asked: list[Question] = []

    async def always(question: Question) -> Answer:
        asked.append(question)
        return Answer(Choice.ALWAYS)

    async with Runtime(builtin_tools(), ask=always, session=desk.session) as runtime:
        for command in ("mkdir made", "touch other", "rm -rf made"):
            assert (await runtime.run("Bash", {"command": command})).success
    assert [one.warning is not None for one in asked] == [False, True]
    assert desk.names() == ["other"]


async def test_standard_error_is_marked(desk: Desk) -> None:
    async with desk.runtime:
        result = await desk.runtime.run("Bash", {"command": "echo bad >&2; echo good"})
    assert result.llm_content == "[stderr]\nbad\n[stdout]\ngood"


async def test_a_command_that_takes_too_long_is_a_timeout_error(desk: Desk) -> None:
    async with desk.runtime:
        result = await desk.runtime.run("Bash", {"command": "sleep 600", "timeout": 300})
    assert result.error is not None
    assert result.error.kind is ErrorKind.TIMEOUT
    assert "0.3 s" in result.llm_content


async def test_a_failing_command_is_an_execution_error(desk: Desk) -> None:
    async with desk.runtime:
        result = await desk.runtime.run("Bash", {"command": "echo out; echo bad >&2; (exit 3)"})
    assert not result.success
    assert result.error is not None
    assert (result.error.kind, dict(result.error.details or {})["exit_code"]) == (ErrorKind.EXECUTION, 3)
    assert result.metadata["exit_code"] == 3
    assert all(one in result.llm_content for one in ("out", "bad", "3"))


def test_the_six_tools_and_their_kinds() -> None:
    assert {name: BY_NAME[name].kind for name in SIX} == {name: Kind(kind) for name, kind in SIX.items()}


def test_a_registry_answers_the_questions_of_the_book() -> None:
    registry = Registry()
    registry.register_many([BY_NAME[name] for name in SIX], origin="builtin")
    assert registry.get("Read") is BY_NAME["Read"]
    assert registry.get("nothing") is None
    assert registry.has("Read")
    assert not registry.has("nothing")
    assert [one.name for one in registry.tools()] == list(SIX)
    assert registry.size == len(registry) == 6
    assert registry.read_only().names() == ["Read", "Glob", "Grep"]
    assert registry.writing().names() == ["Edit", "Write", "Bash"]
    assert registry.search("REGULAR expr")[0].name == "Grep"
    assert {one.origin for one in registry.list()} == {"builtin"}


def test_categories_and_tags() -> None:
    registry = Registry([BY_NAME[name] for name in SIX])
    assert {one.name for one in registry.by_category("files")} == set(SIX) - {"Bash"}
    assert [one.name for one in registry.by_category("shell")] == ["Bash"]
    assert [one.name for one in registry.by_tag("search")] == ["Glob", "Grep"]


def test_declarations_by_mode() -> None:
    registry = Registry([BY_NAME[name] for name in SIX])
    exporter = Exporter("openai")
    for mode, names in (("plan", ["Read", "Glob", "Grep"]), ("default", list(SIX))):
        definitions = exporter.definitions(registry.for_mode(mode))
        assert [one["function"]["name"] for one in definitions] == names


def test_an_event_carries_the_tool() -> None:
    heard: list[Any] = []
    registry = Registry()
    registry.subscribe(heard.append)
    registry.register(BY_NAME["Read"], origin="mcp")
    registry.unregister("Read")
    assert [(one.change, one.origin, one.tool) for one in heard] == [
        ("registered", "mcp", BY_NAME["Read"]), ("unregistered", "mcp", BY_NAME["Read"]),
    ]  # fmt: skip


def test_a_raw_tool_takes_a_schema_of_either_kind() -> None:
    search: Any = raw_tool("search_notes", SearchParams, lambda params: params.query)  # type: ignore[arg-type]
    assert Runtime([search]).run_sync("search_notes", {"query": "x"}).data == "x"


def test_examples_are_shown_to_users(ferrule: Command) -> None:
    (example,) = BY_NAME["Edit"].description.examples
    assert example.description in ferrule("tools", "Edit").out


def test_the_list_has_no_tool_twice_under_two_names() -> None:
    """T3: the standard names, and of the assistant's those that have no twin."""
    names = {one.name for one in builtin_tools()}
    assert set(SIX) | {"getCurrentDateTime", "getCurrentDirectory", "getGitInfo"} <= names
    assert not {"readFile", "listFiles", "searchFiles", "executeCommand"} & names
