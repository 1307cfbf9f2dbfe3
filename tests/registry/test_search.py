"""R3, X5: search over names, descriptions and parameters, for requests as people and models write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Registry, RulePolicy, Runtime, Tool, raw_tool, tool
from ferrule.registry.registry import ToolSource


@tool(kind="readonly", display_name="Open a document", category="texts", tags=["disk"])
def read_file() -> None:
    """Read a text from the workspace."""


@tool(kind="readonly")
def read() -> None:
    """Read anything."""


@tool(kind="readonly")
def fetch() -> None:
    """Read a page of the web."""


@tool(kind="write")
def save() -> None:
    """Store a file."""


REGISTRY = Registry([fetch, save, read_file, read])


def names(query: str | list[str], most: int = 20, source: ToolSource = REGISTRY) -> list[str]:
    return [one.name for one in source.search(query, most)]


def test_the_exact_name_comes_first_then_names_then_descriptions() -> None:
    assert names("read") == ["read", "read_file", "fetch"]
    assert names("readFile")[0] == names("read_file")[0] == names("read file")[0] == "read_file"


def test_not_every_word_must_be_there() -> None:
    assert names("WEB page") == ["fetch"]
    assert names("Could you please fetch me that page about gardening?") == ["fetch"]
    assert names("gardening") == []


def test_display_names_tags_and_categories_count() -> None:
    assert names("document") == ["read_file"]
    assert names("disk") == ["read_file"]
    assert names("texts")[0] == "read_file"


def test_an_empty_query_finds_nothing() -> None:
    assert names("") == names("  ") == names([]) == names("?!") == []


def test_words_that_say_nothing_are_left_out_unless_there_are_no_others() -> None:
    assert names("a page of the")[0] == "fetch"
    assert names("of the") == ["fetch", "read_file"]


def test_no_more_than_asked_for() -> None:
    assert names("read", most=1) == ["read"]
    assert names("read", most=0) == []


def test_disabled_tools_are_not_found_and_new_ones_are() -> None:
    registry = Registry([read])
    assert registry.search("save") == []
    registry.register(save)
    assert [one.name for one in registry.search("save")] == ["save"]
    registry.disable("save")
    assert registry.search("save") == []
    registry.enable("save")
    assert registry.search("save") == [save]
    registry.unregister("save")
    assert registry.search("save") == []
    assert [one.name for one in registry.prefixed("x_").search("x_read")] == ["x_read"]


# What people and models ask for


def described(name: str, description: str, **parameters: str) -> Tool[Any]:
    properties = {key: {"type": "string", "description": said} for key, said in parameters.items()}
    return raw_tool(name, {"type": "object", "properties": properties}, str, description=description, kind="readonly")


OFFICE = Registry(
    [
        described("calendar_create_event", "Add an appointment to a calendar.", starts="When it begins"),
        described("calendarListEvents", "List appointments.", until="The last day"),
        described("mail_send", "Send a message.", recipients="Addresses", body="The text"),
        described("convertCurrency", "Convert an amount.", source="ISO 4217 code", target="ISO 4217 code"),
        described("get_forecast", "Weather of the next days.", city="Name of a town"),
        described("query_train", "查询两个城市之间的火车车次和余票。", date="出发日期"),
        described("send_wechat", "向微信联系人发送一条消息。", contact="联系人姓名"),
        described("tianqi", "查询某个城市的天气预报。", city="城市名称"),
        described("webpageScreenshot", "Take a picture of a site.", address="URL"),
        described("repository_search", "Find code in all projects.", pattern="A regular expression"),
    ]
)


@pytest.mark.parametrize(
    ("request_text", "wanted"),
    [
        ("What appointments do I have this week?", "calendarListEvents"),
        ("Please put lunch with Ann into my calendar for Friday", "calendar_create_event"),
        ("How many euros are 20 dollars? I need the currency converted", "convertCurrency"),
        ("will it rain? I want to know what the weather is like in Rome", "get_forecast"),
        ("who are the recipients", "mail_send"),
        ("regular expressions", "repository_search"),
        ("帮我查一下明天北京的天气", "tianqi"),
        ("从上海到杭州还有火车票吗", "query_train"),
        ("给张三发微信消息", "send_wechat"),
        ("wether forcast", "get_forecast"),
        ("convrt curency", "convertCurrency"),
        ("sned a mesage", "mail_send"),
        ("list all apointments", "calendarListEvents"),
        ("take a screnshot of a web page", "webpageScreenshot"),
        ("ｃａｌｅｎｄａｒ list", "calendarListEvents"),
    ],
)
def test_a_request_in_words_finds_its_tool(request_text: str, wanted: str) -> None:
    assert names(request_text, source=OFFICE)[0] == wanted


def test_several_requests_have_the_best_of_each_first() -> None:
    found = names(["send a message", "weather forecast", "train tickets 火车"], 4, OFFICE)
    assert set(found[:3]) == {"mail_send", "get_forecast", "query_train"}
    assert len(found) <= 4


def test_a_word_that_is_known_is_not_corrected() -> None:
    registry = Registry([described("form", "Fill in a form."), described("from_text", "Fill in a farm.")])
    assert names("farm", source=registry) == ["from_text"]


# What is forbidden never surfaces, and what came later is found as what was there from the start

WORDS = [
    "mail",
    "send",
    "weather",
    "city",
    "train",
    "secret",
    "天气",
    "查询",
    "calendar",
    "event",
    "sceret",
    "wheather",
]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
tool_names = st.sampled_from([f"tool_{number}" for number in range(8)])
tools = st.dictionaries(tool_names, texts, min_size=1)


@given(tools, tools, st.sets(tool_names), texts)
def test_an_index_that_grew_and_shrank_is_one_made_anew(
    before: dict[str, str], after: dict[str, str], removed: set[str], query: str
) -> None:
    registry = Registry((described(name, said) for name, said in before.items()), replace=True)
    registry.search(query)
    for name, said in after.items():
        registry.register(described(name, said))
        registry.search(query)
    for name in removed:
        registry.unregister(name)
    left = {name: said for name, said in (before | after).items() if name not in removed}
    fresh = Registry(described(name, said) for name, said in left.items())
    assert names(query, source=registry) == names(query, source=fresh)
    assert names(query, source=registry.prefixed("x_")) == names(query, source=fresh.prefixed("x_"))


@given(tools, st.sets(tool_names), texts, st.sampled_from(["deny", "role", "disabled", "view", "plan"]))
def test_what_is_forbidden_changes_nothing_that_is_found(
    known: dict[str, str], forbidden: set[str], query: str, how: str
) -> None:
    """Not by its name, its description, its place, nor by the words that only it has."""

    def made(name: str, said: str) -> Tool[Any]:
        kind = "write" if how == "plan" and name in forbidden else "readonly"
        roles = ("admin",) if how == "role" and name in forbidden else ()
        schema = {"type": "object", "properties": {}}
        return raw_tool(name, schema, str, description=said, kind=kind, roles=roles)

    registry = Registry(made(name, said) for name, said in known.items())
    shown: ToolSource = registry
    if how == "deny":
        shown = Runtime(registry, policy=RulePolicy(deny=sorted(forbidden & known.keys()))).usable_tools()
    elif how == "role":
        shown = registry.for_role("guest")
    elif how == "disabled":
        for name in forbidden & known.keys():
            registry.disable(name)
    elif how == "view":
        shown = registry.filtered(lambda one: one.name not in forbidden)
    else:
        shown = registry.for_mode("plan")
    alone = Registry(made(name, said) for name, said in known.items() if name not in forbidden)
    assert names(query, source=shown) == names(query, source=alone)
    assert names(query, 2, shown) == names(query, 2, alone)
    renamed, renamed_alone = shown.prefixed("my_"), alone.prefixed("my_")
    assert names(query, source=renamed) == names(query, source=renamed_alone)
    assert names(query, source=renamed.read_only()) == names(query, source=renamed_alone)
