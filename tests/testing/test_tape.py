import threading
from typing import Any

from ferrule.core.secrets import redact_value
from ferrule.testing.tape import Tape, TapedCall, TapedEvent, TapedRequest, TapedResult


def taped(number: int, words: str = "") -> TapedCall:
    result = TapedResult(llm_content=words, display_content=words)
    return TapedCall(tool="count", version="1", arguments={"number": number}, result=result)


def as_it_is(value: Any) -> Any:
    return value


def words_of(call: TapedCall | None) -> str | None:
    return call.result.llm_content if call is not None and call.result is not None else None


def test_equal_calls_come_in_order_and_the_last_again():
    tape = Tape([taped(1, "a"), taped(2, "b"), taped(1, "c")], as_it_is)
    assert [words_of(tape.take("count", "1", {"number": 1})) for _ in range(4)] == ["a", "c", "c", "c"]
    assert [call.arguments for call in tape.unused] == [{"number": 2}]


def test_another_tool_version_or_argument_is_another_call():
    tape = Tape([taped(1)], as_it_is)
    for key in (("count", "1", {"number": 2}), ("count", "2", {"number": 1}), ("Count", "1", {"number": 1})):
        assert tape.take(*key) is None


def test_the_order_of_keys_does_not_matter():
    call = TapedCall(tool="t", version="1", arguments={"a": 1, "b": {"c": 2, "d": 3}})
    assert Tape([call], as_it_is).take("t", "1", {"b": {"d": 3, "c": 2}, "a": 1}) is call


def test_equal_calls_keep_the_order_they_began_in_and_not_the_one_they_ended_in():
    tape = Tape([], as_it_is)
    first, second = tape.begin(), tape.begin()
    tape.record(second, taped(1, "second"))
    tape.record(first, taped(1, "first"))
    assert [words_of(call) for call in tape.calls] == ["first", "second"]


def test_the_nearest_is_of_the_same_tool_before_all_else():
    other = TapedCall(tool="counts", version="1", arguments={"number": 100})
    tape = Tape([taped(11), taped(105), other], as_it_is)
    assert tape.nearest("count", {"number": 100}) == taped(105)
    assert tape.nearest("countz", {"number": 100}) is not None
    assert tape.nearest("something_else", {"number": 100}) is None


def test_what_is_recorded_is_redacted_and_found_again():
    def hide(value: Any) -> Any:
        return {"number": "hidden"} if isinstance(value, dict) and "number" in value else value

    tape = Tape([], hide)
    tape.record(tape.begin(), taped(5, "a"))
    assert tape.calls[0].arguments == {"number": "hidden"}
    assert words_of(tape.take("count", "1", {"number": 6})) == "a"


def test_many_threads_take_each_outcome_once():
    tape = Tape([taped(1, str(number)) for number in range(400)], as_it_is)
    taken: list[str | None] = []

    def take() -> None:
        taken.extend(words_of(tape.take("count", "1", {"number": 1})) for _ in range(50))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, filter(None, taken))) == list(range(400))


def streamed(*deltas: dict[str, Any]) -> TapedRequest:
    return TapedRequest(model="m", request="POST x", events=[TapedEvent(data={"delta": delta}) for delta in deltas])


def test_a_secret_in_pieces_is_removed_whatever_comes_with_its_first_piece_and_between():
    """P10: two calls at once, whose arguments come in turns."""
    taped = streamed(
        {"index": 0, "type": "function", "id": "c1", "arguments": '{"pass'},
        {"index": 1, "type": "function", "id": "c2", "arguments": '{"city": "Os'},
        {"index": 0, "arguments": 'word": "hun'},
        {"index": 1, "arguments": 'lo"}'},
        {"index": 0, "arguments": 'ter2"}'},
    ).redacted(redact_value)
    assert taped.events is not None
    pieces = [(one.data["delta"]["index"], one.data["delta"]["arguments"]) for one in taped.events]
    assert pieces == [(0, '{"password": "[redacted]"}'), (1, '{"city": "Os'), (0, ""), (1, 'lo"}'), (0, "")]


def test_null_under_the_name_of_a_secret_stays_null():
    taped = streamed({"max_output_tokens": None, "token": "abc", "usage": {"input_tokens": 5}}).redacted(redact_value)
    assert taped.events is not None
    assert taped.events[0].data["delta"] == {
        "max_output_tokens": None, "token": "[redacted]", "usage": {"input_tokens": 5}
    }  # fmt: skip
