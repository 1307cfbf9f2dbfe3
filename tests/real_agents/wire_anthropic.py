"""Anthropic's Messages API, as Claude Code speaks it."""

from __future__ import annotations

import json
from typing import Any

from tests.real_agents.endpoint import LOOKED, Asked, Given, Offered


class AnthropicMessages:
    def wants_model(self, path: str) -> bool:
        return path.partition("?")[0].endswith("/v1/messages")

    def streams(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def read(self, body: Any) -> Asked:
        tools = [
            Offered(one["name"], one.get("description", ""), one["input_schema"])
            for one in body.get("tools", [])
            if "input_schema" in one
        ]
        results = [
            _given(block)
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result" and not block["tool_use_id"].startswith(LOOKED)
        ]
        return Asked(tools, results, json.dumps([body.get("system"), body["messages"]]))

    def call(self, tool: Offered, arguments: dict[str, Any], call_id: str) -> list[tuple[str, Any]]:
        block = {"type": "tool_use", "id": call_id, "name": tool.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        return _message(block, delta, "tool_use")

    def say(self, text: str) -> list[tuple[str, Any]]:
        return _message({"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn")

    def whole(self, events: list[tuple[str, Any]]) -> Any:
        message: dict[str, Any] = {}
        for name, data in events:
            if name == "message_start":
                message = {**data["message"]}
            elif name == "content_block_start":
                message["content"] = [{**data["content_block"]}]
            elif name == "content_block_delta" and data["delta"]["type"] == "text_delta":
                message["content"][0]["text"] = data["delta"]["text"]
            elif name == "content_block_delta":
                message["content"][0]["input"] = json.loads(data["delta"]["partial_json"])
            elif name == "message_delta":
                message["stop_reason"] = data["delta"]["stop_reason"]
        return message


def _message(block: dict[str, Any], delta: dict[str, Any], stop: str) -> list[tuple[str, Any]]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    ended = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 10}}
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", ended),
        ("message_stop", {}),
    ]
    return [(name, {"type": name, **data}) for name, data in events]


def _given(block: dict[str, Any]) -> Given:
    content: Any = block.get("content") or ""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    texts = [one["text"] for one in content if one["type"] == "text"]
    pictures = [one["source"]["data"] for one in content if one["type"] == "image"]
    return Given("\n".join(texts), pictures, bool(block.get("is_error")))
