"""Lists of models without those that cannot chat."""

from __future__ import annotations

from ferrule.models.wire_form import chat_names


def test_what_cannot_chat_is_left_out() -> None:
    names = [
        "gpt-5", "text-embedding-3-large", "whisper-1", "gpt-4o-mini-tts", "dall-e-3", "gpt-image-1", "sora-2", "o3",
        "omni-moderation-latest", "gpt-realtime", "gpt-audio", "meta-llama/llama-guard-4", "qwen3-coder", "qwen3-coder",
    ]  # fmt: skip
    assert chat_names([{"id": name} for name in names], "id") == ["gpt-5", "o3", "qwen3-coder"]


def test_any_other_shape_is_an_empty_list() -> None:
    assert chat_names(None, "id") == chat_names({"id": "x"}, "id") == chat_names([5, {"id": 5}, {}], "id") == []
