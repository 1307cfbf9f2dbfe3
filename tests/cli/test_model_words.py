"""What a person reads when no model was chosen, in their language."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from ferrule.app.assistant import NoModelChosen
from ferrule.cli.models import model_words
from ferrule.cli.words import choose_language
from ferrule.core.model import ModelError, ModelFault


@pytest.fixture(autouse=True)
def english_again() -> object:
    yield
    choose_language(["--lang", "en"])


def test_nothing_configured_is_explained_in_a_few_lines() -> None:
    choose_language(["--lang", "en"])
    assert model_words(NoModelChosen({})) == snapshot("""\
No model is chosen. Choose one:
  --model ollama/NAME    a server on this machine: ollama, lmstudio, llamacpp or vllm
  --model local          a small model on this machine: no key; 93 MB, fetched once
or give a key: export ANTHROPIC_API_KEY=…, OPENAI_API_KEY=…, GEMINI_API_KEY=…
`ferrule models` lists what is here. To keep a choice: export FERRULE_MODEL=PROVIDER/NAME\
""")
    choose_language(["--lang", "zh"])
    assert model_words(NoModelChosen({"openai": "OPENAI_API_KEY"})) == snapshot("""\
还没有选择模型。请选择一个：
  --model openai/NAME    已设置 OPENAI_API_KEY
  --model ollama/NAME    本机上的服务：ollama、lmstudio、llamacpp 或 vllm
  --model local          本机上的小模型：不需要密钥；首次使用时下载 93 MB
`ferrule models` 列出可用的模型。要保留选择：export FERRULE_MODEL=PROVIDER/NAME\
""")


def test_what_a_provider_said_stays_as_it_is() -> None:
    choose_language(["--lang", "zh"])
    error = ModelError(ModelFault.BUSY, "OpenAI is overloaded (503).", suggestion="Wait.")
    assert model_words(error) == "OpenAI is overloaded (503). Wait."
