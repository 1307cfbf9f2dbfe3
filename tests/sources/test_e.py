"""E: the function calling of an enterprise, with roles, tenants, intents and metrics, behaviour by behaviour."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import Any

import pytest
from pydantic import BaseModel
from tests.mcp_client.peers import PLAIN
from tests.sources.behaviours import shown

from ferrule import (
    Caller,
    ErrorKind,
    Kind,
    Problem,
    RawCall,
    Registry,
    RulePolicy,
    Runtime,
    Session,
    Tool,
    ToolContext,
    ToolError,
    tool,
)
from ferrule.dialects import Exporter
from ferrule.records import LogRecorder, Statistics, log_registry, prometheus_text

BEHAVIOURS = [
    # The picture as a whole
    shown(23, "M3", "A request in words comes in over an API",
          "tests/service/test_requests.py::test_the_model_answers_with_tools_an_intent_or_words"),
    shown(33, "M3", "An intent goes to its handler, and a tool call to the model's loop",
          "tests/service/test_requests.py::test_the_model_answers_with_tools_an_intent_or_words",
          "tests/service/test_intents.py::test_an_intent_reads_and_changes_an_entity"),
    shown(41, "M1", "The result of a tool goes back to the model",
          "tests/agent/test_turn.py::test_definitions_go_out_calls_run_and_results_go_back_until_words"),
    shown(51, "M3", "There are tools that create an intent and query the schema of an entity",
          "tests/service/test_intents.py::test_a_model_adds_an_intent_by_a_tool",
          "tests/service/test_intents.py::test_the_schema_of_an_entity_is_told"),
    shown(78, "M1", "The model gets the definitions of the tools with the request",
          "tests/service/test_requests.py::test_what_the_model_is_told_first"),
    shown(93, "M3", "What the model decides to be an intent is routed to its handler",
          "tests/service/test_requests.py::test_the_model_answers_with_tools_an_intent_or_words"),
    # Definitions and calls
    shown(113, "T10", "A definition is a function with a name, a description, parameters and strict",
          "::test_a_definition_may_be_strict"),
    shown(127, "T10", "The definitions of all tools are made by the registry",
          "tests/dialects/test_exporter.py::test_names_go_out_and_come_back",
          better="A registry knows no provider; an `Exporter` writes its tools in the form of the one in use, and "
                 "again only when they change."),
    shown(140, "T10", "A call has an id, and a function with a name and arguments as JSON text",
          "::test_a_call_of_a_model_goes_to_its_tool",
          "tests/dialects/test_openai_chat.py::test_calls_are_found_wherever_they_are"),
    shown(155, "M1", "The result goes back under the id of its call",
          "tests/dialects/test_openai_chat.py::test_results"),
    # What executes
    shown(168, "T1", "A tool gives its name, its description and its schema",
          "tests/core/test_tool.py::test_a_class_with_parameters_and_run_is_a_tool"),
    shown(171, "T8", "A tool gets the call and a context of the caller", "::test_a_class_needs_no_helpers"),
    shown(174, "T2", "A tool can be enabled and disabled",
          "tests/registry/test_registry.py::test_a_disabled_tool_is_kept_but_not_shown"),
    shown(175, "T2", "A tool says whether it needs permission",
          "tests/pipeline/test_authorise.py::test_a_tool_that_says_it_needs_leave_asks"),
    shown(176, "R4", "A tool says which roles may use it",
          "tests/pipeline/test_authorise.py::test_a_tool_for_some_roles_is_for_no_other"),
    shown(183, "T9", "A result is JSON text for the model", "::test_a_result_is_json_for_the_model",
          better="A tool that returns text gives the model that text; any other value becomes JSON. Text in quotes, "
                 "with its line ends escaped, is harder to read and longer."),
    shown(197, "T4", "A base class parses the arguments and gives required and optional ones",
          "::test_a_class_needs_no_helpers",
          better="A class declares its parameters as a pydantic model: a required one is a field, an optional one "
                 "has a default, both have a type, and a missing one is reported before the tool runs. There is "
                 "nothing left to fetch by name."),
    shown(205, "T4", "A base class makes results of successes and errors", "::test_a_class_needs_no_helpers",
          better="A tool returns its value, typed, and raises `ToolError`; Ferrule makes the result of it, so that "
                 "no tool can give one in a form of its own."),
    shown(211, "T8", "A base class gives the tenant, the user and the role", "::test_a_class_needs_no_helpers",
          better="The tenant, the user and the role are `context.caller`, which every tool has, not only one of a "
                 "class. `factoryId` is called `tenant`: not every tenant is a factory."),
    shown(217, "O2", "Start, success and failure are logged for every tool",
          "tests/records/test_logs.py::test_a_call_is_followed_from_lookup_to_end"),
    shown(224, "T8", "A context that lacks what a tool needs is refused",
          "tests/pipeline/test_authorise.py::test_a_context_that_lacks_what_a_tool_needs_is_an_error_before_it_runs"),
    shown(228, "T2", "A tool is enabled unless it says otherwise",
          "tests/core/test_tool.py::test_what_a_tool_is_when_nothing_is_said"),
    shown(229, "P4", "A tool needs permission unless it says otherwise",
          "tests/pipeline/test_authorise.py::test_without_a_policy_read_only_tools_run_and_those_that_write_or_execute_ask",
          "tests/pipeline/test_authorise.py::test_a_tool_without_a_kind_counts_as_execute_once_somebody_stands_in_front",
          better="Whether a call asks follows from the tool's kind and from what the call would do, so that reading "
                 "does not ask: users who are asked too often stop looking."),
    shown(230, "R4", "Every role may use a tool unless it says otherwise",
          "tests/registry/test_views.py::test_a_role_sees_the_tools_it_may_use"),
    # The registry
    shown(245, "R6", "Tools are collected without wiring",
          "tests/plugins/test_discovery.py::test_installed_packages_bring_their_tools",
          "tests/plugins/test_discovery.py::test_a_folder_brings_the_tools_of_its_files"),
    shown(257, "R1", "A tool is found by its name, or nothing is",
          "tests/registry/test_registry.py::test_a_registered_tool_is_found",
          "tests/registry/test_registry.py::test_an_absent_tool_is_none"),
    shown(258, "R1", "A registry says whether there is a tool",
          "tests/registry/test_registry.py::test_a_registered_tool_is_found"),
    shown(264, "R4", "The definitions for a role are those that it may use", "::test_definitions_for_a_role"),
    shown(269, "R1", "The registry is safe under threads",
          "tests/registry/test_registry.py::test_operations_from_many_threads_keep_the_laws"),
    # The way of a request
    shown(281, "M3", "A request that names an intent runs it without a model",
          "tests/service/test_intents.py::test_an_intent_reads_and_changes_an_entity",
          "tests/service/test_requests.py::test_without_a_model_the_rest_says_what_is_missing"),
    shown(283, "M3", "Other requests ask a semantic cache first",
          "tests/service/test_answer_cache.py::test_with_a_model_only_what_it_confirmed_is_served",
          better="A kept answer is served only for the same words, or where a model confirms that the question is "
                 "the same, and only until something behind it changes: questions that only look alike have other "
                 "answers."),
    shown(285, "M3", "What the cache has is returned",
          "tests/service/test_answer_cache.py::test_a_hit_says_so_and_can_be_refused"),
    shown(288, "R4", "The model gets the tools of the caller's role",
          "tests/service/test_directory.py::test_roles_decide_what_is_listed_and_what_may_be_called",
          "tests/service/test_requests.py::test_what_the_model_is_told_first"),
    shown(292, "M3", "The model answers with a tool call, an intent or words",
          "tests/service/test_requests.py::test_the_model_answers_with_tools_an_intent_or_words"),
    shown(299, "P2", "A tool that does not exist is an error",
          "tests/pipeline/test_lookup.py::test_an_unknown_tool_is_answered_with_the_nearest_names"),
    shown(303, "P4", "A tool that the role may not use is an error", "::test_a_role_that_may_not_is_refused"),
    shown(306, "P1", "A success and a failure both go back to the model, which answers",
          "tests/agent/test_turn.py::test_a_bad_call_is_told_to_the_model_and_the_turn_goes_on"),
    shown(339, "P4", "Permission is checked before the tool runs",
          "tests/core/test_errors.py::test_the_stages_are_seven_in_order"),
    shown(353, "O2", "The start of a call is logged before its context and its arguments are looked at",
          "tests/records/test_logs.py::test_a_call_is_followed_from_lookup_to_end",
          better="A call's lookup is logged first and its start once it may run, so that a line that says `start` "
                 "means that the tool really ran."),
    shown(373, "M1", "A tool is called where the answer has tool calls",
          "tests/agent/test_turn.py::test_definitions_go_out_calls_run_and_results_go_back_until_words"),
    shown(376, "P1", "An exception of a tool becomes an error result",
          "tests/pipeline/test_execute.py::test_whatever_a_tool_raises_is_a_result"),
    # Beside intents
    shown(392, "M3", "There are handlers for forms, data operations, queries and others",
          "tests/service/test_intents.py::test_a_form_asks_for_what_is_missing_and_then_submits",
          "tests/service/test_intents.py::test_a_data_operation_is_approved_with_what_it_would_do",
          "tests/service/test_intents.py::test_tools_and_chains_are_decided_call_by_call",
          "tests/service/test_intents.py::test_a_package_adds_a_handler"),
    shown(421, "M3", "A tool gives the model what it needs to know of an entity",
          "tests/service/test_intents.py::test_the_schema_of_an_entity_is_told"),
    shown(422, "M3", "A tool creates intents that handlers then run",
          "tests/service/test_intents.py::test_a_model_adds_an_intent_by_a_tool"),
    shown(428, "R6", "Tools are registered when the program starts",
          "tests/app/test_find_tools.py::test_built_ins_and_folders_are_found_with_their_origin"),
    shown(436, "M3", "Tools and handlers share one context with tenant, user and role",
          "tests/service/test_intents.py::test_an_intent_opens_nothing_that_its_caller_may_not_use"),
    shown(440, "M3", "Tools and intents share one system of permissions",
          "tests/service/test_intents.py::test_an_intent_opens_nothing_that_its_caller_may_not_use"),
    # New tools
    shown(449, "T4", "A new tool is a class with a name, a description, a schema and an execute",
          "::test_a_class_needs_no_helpers"),
    shown(459, "R6", "A new tool is found and registered by itself",
          "tests/plugins/test_folder_tools.py::test_every_change_is_an_event_with_its_origin"),
    shown(521, "R4", "A tool may be for administrators alone", "::test_a_role_that_may_not_is_refused"),
    shown(529, "R8", "Tools are switched on and off while running",
          "::test_a_tool_is_switched_off_and_on_while_in_use"),
    shown(532, "P1", "A tool that fails does not affect others",
          "tests/pipeline/test_execute.py::test_a_failing_tool_does_not_harm_the_calls_beside_it",
          "tests/test_one_bad_tool.py::test_a_call_of_it_fails_in_words_and_the_others_of_its_batch_run"),
    # What it is good for
    shown(545, "R6", "New tools need no change of the core",
          "tests/plugins/test_discovery.py::test_installed_packages_bring_their_tools"),
    shown(550, "R4", "Each role sees tools of its own",
          "tests/service/test_directory.py::test_roles_decide_what_is_listed_and_what_may_be_called"),
    # Performance
    shown(579, "O5", "Tools are registered once and only looked up afterwards",
          "tests/registry/test_registry.py::test_looking_up_takes_the_same_time_however_many_there_are"),
    shown(583, "R4", "The model is sent the tools of the role alone", "::test_definitions_for_a_role"),
    shown(591, "O6", "Tools run outside the main thread and do not block it",
          "tests/pipeline/test_execute.py::test_a_sync_tool_does_not_hold_up_the_loop",
          "tests/pipeline/test_tool_loops.py::test_tools_share_a_loop_apart_and_those_that_never_block_stay_here"),
    shown(598, "O5", "Registering, looking up and running take no more than so long",
          "tests/registry/test_registry.py::test_looking_up_takes_the_same_time_however_many_there_are",
          "tests/records/test_audit.py::test_recording_takes_microseconds",
          better="Times are measured against the bare work in the same run (docs/reference/benchmarks.md), because "
                 "milliseconds say more about a machine than about the code."),
    # Safety
    shown(616, "R4", "Several roles may use a tool", "::test_several_roles_may_use_a_tool"),
    shown(623, "P2", "A required parameter that is missing is an error that names it",
          "::test_a_class_needs_no_helpers"),
    shown(626, "T7", "A business rule is checked and its breach is an error", "::test_a_business_rule_is_checked"),
    shown(634, "T8", "A missing tenant is named", "::test_what_the_context_lacks_is_named"),
    shown(637, "T8", "A missing user is named", "::test_what_the_context_lacks_is_named"),
    shown(644, "P10", "Errors are cleaned of what is secret",
          "tests/pipeline/test_format.py::test_secrets_in_the_details_of_an_error_do_not_leave",
          "tests/pipeline/test_run.py::test_errors_leave_without_paths_of_this_machine"),
    shown(645, "P10", "Errors say nothing of the inside of the system",
          "tests/pipeline/test_cleaning.py::test_a_traceback_is_stripped_to_its_last_line",
          "tests/service/test_http.py::test_a_failure_of_the_service_says_nothing_of_itself"),
    shown(648, "O4", "Every call carries its tenant",
          "tests/service/test_tenants.py::test_the_tenant_comes_from_the_key_and_from_nothing_else"),
    shown(649, "O4", "The data of tenants are apart",
          "tests/service/test_tenants.py::test_two_tenants_with_each_others_ids_get_404s_and_not_one_foreign_byte",
          "tests/service/test_requests.py::test_nothing_of_intents_entities_and_answers_crosses_tenants"),
    # Logs and metrics
    shown(659, "O2", "The line of a start has the tool, the call, the tenant and the user",
          "::test_log_lines_have_names"),
    shown(660, "O2", "The line of a success has the length of the result", "::test_log_lines_have_names",
          "tests/service/test_telemetry.py::test_calls_are_logged_by_name_with_tenant_and_user"),
    shown(661, "O2", "The line of a failure has the error", "::test_log_lines_have_names",
          better="Lines of the log have no pictures; the level says what is a failure, and the names are those that "
                 "logs are searched by."),
    shown(665, "O2", "Registering and looking up are logged", "::test_registering_and_looking_up_are_logged"),
    shown(675, "O1", "Executions, successes and failures are counted", "::test_the_metrics_have_their_names",
          "tests/records/test_telemetry.py::test_records_become_metrics"),
    shown(678, "O1", "The durations of executions are a histogram",
          "tests/records/test_prometheus.py::test_buckets_add_up", "::test_the_metrics_have_their_names"),
    shown(679, "O1", "Denied permissions are counted", "::test_the_metrics_have_their_names"),
    shown(680, "O1", "The number of registered tools is a gauge", "::test_the_metrics_have_their_names"),
    # What was planned
    shown(688, "O6", "Tools run asynchronously", "tests/core/test_tool.py::test_run_may_be_written_in_every_style"),
    shown(689, "P6", "A tool has a time limit",
          "tests/pipeline/test_execute.py::test_an_async_tool_is_stopped_at_its_time_limit"),
    shown(690, "P8", "Calls form chains", "tests/pipeline/test_batch.py::test_a_call_may_use_an_earlier_calls_result"),
    shown(691, "O3", "There is an audit log", "tests/records/test_verification.py::test_every_way_of_tampering_shows"),
    shown(695, "P9", "Execution streams over SSE",
          "tests/service/test_events.py::test_a_stream_gives_progress_and_output_and_ends_with_the_result"),
    shown(696, "P7", "Results are cached", "tests/pipeline/test_cache.py::test_the_same_call_runs_once"),
    shown(697, "T12", "Tools have versions",
          "tests/registry/test_registry.py::test_another_version_stands_beside_and_does_not_take_over",
          "tests/registry/test_views.py::test_versions_can_be_pinned_through_a_view"),
    shown(698, "R8", "Tools are registered without a restart",
          "tests/plugins/test_folder_tools.py::test_every_change_is_an_event_with_its_origin",
          "tests/panel/test_plugins.py::test_from_a_market_to_a_tool_that_is_called_and_gone_again",
          "::test_a_server_that_is_closed_takes_its_tools_along"),
    shown(702, "O6", "Tools run on other machines",
          "tests/remote/test_calls.py::test_results_are_those_of_a_call_in_process"),
    shown(703, "R7", "There is a market of plugins", "tests/cli/test_market.py::test_a_market_is_published_and_used"),
    shown(704, "M4", "A model writes the definition of a new tool",
          "tests/builtin/test_draft_tool.py::test_a_good_draft_is_shown_agreed_to_called_undone_and_raised_to_a_new_version",
          "tests/service/test_drafted_tools.py::test_a_draft_is_tried_approved_and_a_tool_of_its_tenant_alone"),
    shown(705, "O3", "A panel shows what tools do", "tests/panel/test_journeys.py::test_a_day_with_the_panel"),
]  # fmt: skip


class OrderParams(BaseModel):
    order: str
    currency: str = "EUR"


class FindOrder(Tool[OrderParams]):
    """Find an order. Use this before you speak of one."""

    name = "find_order"
    kind = Kind.READONLY
    roles = frozenset({"admin", "super_admin"})
    needs = frozenset({"tenant", "user"})

    def check(self, params: OrderParams) -> Any:
        if not params.order.startswith("F"):
            yield Problem(("order",), "value", "an order begins with F")

    def run(self, params: OrderParams, context: ToolContext) -> dict[str, Any]:
        if params.order == "F404":
            raise ToolError("There is no such order.")
        caller = context.caller
        return {"order": params.order, "currency": params.currency, "by": [caller.tenant, caller.user, caller.role]}


ADMIN = Caller("F001", "22", "admin")


def find(arguments: dict[str, Any], caller: Caller = ADMIN) -> Any:
    return Runtime([FindOrder()], session=Session(caller=caller)).run_sync("find_order", arguments)


def test_a_definition_may_be_strict() -> None:
    """T10."""

    @tool(kind="readonly", strict=True)
    def find_all(text: str) -> str:
        """Find all. Use this to test."""
        return text

    definitions = Exporter("openai").definitions([find_all, FindOrder()])
    assert [one["type"] for one in definitions] == ["function", "function"]
    assert [one["function"]["strict"] for one in definitions] == [True, False]
    assert definitions[1]["function"]["parameters"]["required"] == ["order"]


def test_a_call_of_a_model_goes_to_its_tool() -> None:
    """T10, M1."""
    exporter = Exporter("openai")
    exporter.definitions([FindOrder()])
    answer = {"tool_calls": [{"id": "call_abc123", "type": "function",
                              "function": {"name": "find_order", "arguments": '{"order": "F1"}'}}]}  # fmt: skip
    calls = exporter.calls(answer)
    results = Runtime([FindOrder()], session=Session(caller=ADMIN)).batch_sync(calls)
    (message,) = exporter.results(results)
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_abc123")
    assert json.loads(message["content"])["order"] == "F1"


def test_a_class_needs_no_helpers() -> None:
    """T4, T8: parameters with types and defaults, a value or an error, and the caller."""
    assert find({"order": "F1"}).data == {"order": "F1", "currency": "EUR", "by": ["F001", "22", "admin"]}
    missing = find({})
    assert missing.error.kind is ErrorKind.VALIDATION
    assert "`order`: required, but missing" in missing.llm_content
    failed = find({"order": "F404"})
    assert (failed.success, failed.error.message) == (False, "There is no such order.")


def test_a_result_is_json_for_the_model() -> None:
    assert json.loads(find({"order": "F1"}).llm_content) == find({"order": "F1"}).data

    @tool(kind="readonly")
    def say_it() -> str:
        """Say it. Use this to test."""
        return "one\ntwo"

    assert Runtime([say_it]).run_sync("say_it").llm_content == "one\ntwo"


def test_definitions_for_a_role() -> None:
    """R4."""

    @tool(kind="readonly")
    def look(text: str) -> str:
        """Look. Use this to test."""
        return text

    registry, exporter = Registry([FindOrder(), look]), Exporter("openai")
    names = {role: [one["function"]["name"] for one in exporter.definitions(registry.for_role(role))]
             for role in ("admin", "guest", None)}  # fmt: skip
    assert names == {"admin": ["find_order", "look"], "guest": ["look"], None: ["look"]}


def test_a_role_that_may_not_is_refused() -> None:
    """P4, also where the tool was not hidden."""
    refused = find({"order": "F1"}, Caller("F001", "22", "guest"))
    assert refused.error.kind is ErrorKind.PERMISSION
    assert "not for the role `guest`" in refused.llm_content


def test_several_roles_may_use_a_tool() -> None:
    answers = [find({"order": "F1"}, Caller("F001", "22", role)).success for role in ("admin", "super_admin", "user")]
    assert answers == [True, True, False]


def test_a_tool_is_switched_off_and_on_while_in_use() -> None:
    """R8."""
    registry = Registry([FindOrder()])
    runtime = Runtime(registry, session=Session(caller=ADMIN))
    seen: list[bool] = []
    for switch in (None, registry.disable, registry.enable):
        if switch is not None:
            switch("find_order")
        seen.append(runtime.run_sync("find_order", {"order": "F1"}).success)
    assert seen == [True, False, True]


def test_a_business_rule_is_checked() -> None:
    """T7."""
    wrong = find({"order": "X1"})
    assert wrong.error.kind is ErrorKind.VALIDATION
    assert "`order`: an order begins with F" in wrong.llm_content


@pytest.mark.parametrize(
    ("caller", "said"),
    [
        (Caller(None, "22", "admin"), "Missing tenant in context"),
        (Caller("F001", None, "admin"), "Missing user in context"),
        (Caller(None, None, "admin"), "Missing tenant and user in context"),
    ],
)
def test_what_the_context_lacks_is_named(caller: Caller, said: str) -> None:
    """T8."""
    assert said in find({"order": "F1"}, caller).error.message


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name.startswith("ferrule.")]


def test_log_lines_have_names(caplog: pytest.LogCaptureFixture) -> None:
    """O2."""
    caplog.set_level(logging.DEBUG, "ferrule.calls")
    runtime = Runtime([FindOrder()], recorders=[LogRecorder(names=True)], session=Session(caller=ADMIN))
    result = asyncio.run(runtime.run(RawCall("find_order", {"order": "F1"}, id="call_abc123")))
    asyncio.run(runtime.run(RawCall("find_order", {}, id="call_abc124")))
    common = "toolName=find_order, toolCallId=call_abc123, tenant=F001, userId=22"
    lines = logged(caplog)
    assert f"start {common}" in lines
    (success,) = [one for one in lines if one.startswith(common)]
    assert success.endswith(f"resultLength={len(result.llm_content)}")
    (failure,) = [one for one in lines if one.startswith("toolName=") and "call_abc124" in one]
    assert "error=validation_error: " in failure


def test_registering_and_looking_up_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """O2."""
    caplog.set_level(logging.DEBUG, "ferrule")
    registry = Registry()
    registry.subscribe(log_registry)
    registry.register(FindOrder(), origin="builtin")
    runtime = Runtime(registry, recorders=[LogRecorder()], session=Session(caller=ADMIN))
    asyncio.run(runtime.run(RawCall("find_order", {"order": "F1"}, id="c1")))
    asyncio.run(runtime.run(RawCall("find_ordr", {}, id="c2")))
    lines = logged(caplog)
    assert lines[:2] == ["registered find_order 1.0.0 from builtin", "lookup find_order c1"]
    assert "lookup find_ordr c2: no such tool" in lines


def test_the_metrics_have_their_names() -> None:
    """O1: with underscores, as Prometheus wants them."""
    statistics = Statistics()
    registry = Registry([FindOrder()])
    runtime = Runtime(registry, recorders=[statistics])
    for caller, order in ((ADMIN, "F1"), (ADMIN, "F404"), (Caller("F001", "22", "guest"), "F1")):
        runtime.run_sync("find_order", {"order": order}, session=Session(caller=caller))
    page = prometheus_text(statistics, registry_size=registry.size)
    for line in (
        'tool_execution_count_total{tool="find_order"} 3',
        'tool_execution_success_total{tool="find_order"} 1',
        'tool_execution_failure_total{tool="find_order"} 1',
        'tool_permission_denied_total{tool="find_order"} 1',
        'tool_execution_duration_seconds_count{tool="find_order"} 2',
        "tool_registry_size 1",
    ):
        assert line in page


async def test_a_server_that_is_closed_takes_its_tools_along() -> None:
    """R5, R8: and those who listen to the registry hear of it."""
    server = {"command": sys.executable, "args": ["-I", str(PLAIN), "good", os.devnull]}
    registry, heard = Registry(), list[str]()
    async with Runtime(registry, mcp_servers={"peer": server}, policy=RulePolicy(allow=["mcp__*"])) as runtime:
        assert (await runtime.run("mcp__peer__echo", {"text": "hi"})).llm_content == "hi"
        registry.subscribe(lambda event: heard.append(f"{event.change} {event.name}"))
    assert registry.names() == []
    assert "unregistered mcp__peer__echo" in heard
    result = await runtime.run("mcp__peer__echo", {"text": "hi"})
    assert "closed" in result.llm_content
