"""Google's generateContent, as Gemini CLI speaks it."""

from __future__ import annotations

import json
from typing import Any

from tests.real_agents.endpoint import Asked, Given, Offered


class GeminiGenerate:
    def wants_model(self, path: str) -> bool:
        return path.partition("?")[0].endswith((":generateContent", ":streamGenerateContent"))

    def streams(self, path: str, body: Any) -> bool:
        return ":streamGenerateContent" in path

    def read(self, body: Any) -> Asked:
        tools = [
            Offered(one["name"], one.get("description", ""), one.get("parametersJsonSchema") or one["parameters"])
            for group in body.get("tools", [])
            for one in group.get("functionDeclarations", [])
        ]
        results = [
            _given(part["functionResponse"], content["parts"])
            for content in body["contents"]
            for part in content["parts"]
            if "functionResponse" in part
        ]
        return Asked(tools, results, json.dumps([body.get("systemInstruction"), body["contents"]]))

    def call(self, tool: Offered, arguments: dict[str, Any], call_id: str) -> list[tuple[str, Any]]:
        return _answer({"functionCall": {"name": tool.name, "args": arguments}})

    def say(self, text: str) -> list[tuple[str, Any]]:
        return _answer({"text": text})

    def whole(self, events: list[tuple[str, Any]]) -> Any:
        return events[0][1]


def _answer(part: dict[str, Any]) -> list[tuple[str, Any]]:
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
    return [("", {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"})]


def _given(response: dict[str, Any], beside: list[dict[str, Any]]) -> Given:
    said = response["response"]
    failed = "error" in said
    text = said["error"] if failed else said.get("output", said)
    parts = [*response.get("parts", []), *beside]
    pictures = [part["inlineData"]["data"] for part in parts if "inlineData" in part]
    return Given(text if isinstance(text, str) else json.dumps(text), pictures, failed)
