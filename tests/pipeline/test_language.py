"""What a user sees of a result is in the language of their session; the model, programs and records read English."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from ferrule import RawCall, Runtime, Session, tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Output


@tool(kind="readonly", cache=60)
def count_files(limit: int) -> Output[int]:
    """Count files. Use this to test."""
    return Output(limit, llm_content="Found.", display_content=phrase("found {n} files", n=limit))


def shown(runtime: Runtime, arguments: str) -> str:
    return runtime.run_sync("count_files", arguments).display_content


def test_a_runtime_speaks_the_users_language() -> None:
    """M2, T9."""
    runtime = Runtime([count_files], language="zh")
    assert [shown(runtime, text) for text in ('{"limit": 3}', '{"limit": "x"}', "{}", "[")] == snapshot(
        [
            "找到 3 个文件",
            '`limit`：应为 integer，得到的是 string "x"',
            "`limit`：必填，但缺少（应为 integer）",
            "`count_files` 的参数没有被接受：它们不是有效的 JSON：它们结束得太早：有 array 没有结束（在 `[` 之后）。",
        ]
    )
    assert runtime.run_sync("count_file").display_content == "没有工具 `count_file`。"
    assert runtime.run_sync("count_file").llm_content.startswith("Error (not_found_error): There is no tool")


def test_each_session_has_its_own_and_shares_what_is_cached() -> None:
    """P7."""
    runtime = Runtime([count_files])
    chinese = Session(language="zh")
    first = runtime.run_sync("count_files", {"limit": 2})
    second = runtime.run_sync(RawCall("count_files", {"limit": 2}), session=chinese)
    assert (first.display_content, second.display_content) == ("found 2 files", "找到 2 个文件")
    assert second.metadata["cached"] is True


def test_a_validation_error_shows_its_first_problem_and_how_many_more_there_are() -> None:
    runtime = Runtime([count_files])
    assert shown(runtime, '{"limt": 1}') == snapshot("`limit`: required, but missing (expected integer); and 1 more")
    assert shown(runtime, '{"limit": null}') == snapshot("`limit`: expected integer, got null")


def test_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match="`language` is one of 'en', 'zh', not 'tlh'"):
        Runtime(language="tlh")
    with pytest.raises(ValueError, match="not 'de'"):
        Session(language="de")
