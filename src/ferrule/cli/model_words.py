"""Words for a person about a model that was not chosen or gave no answer, in their language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.app.choose_model import NoModelChosen
from ferrule.cli.words import _, localised
from ferrule.core.phrases import joined
from ferrule.models.discovery import EMBEDDED

if TYPE_CHECKING:
    from ferrule.core.model import ModelError


def model_words(error: ModelError) -> str:
    """What happened and what to do. What a provider said itself stays as it said it."""
    if not isinstance(error, NoModelChosen):
        return localised(joined(" ", [error.message, error.suggestion]))
    lines = [_("No model is chosen. Choose one:")]
    for name, where in error.with_key.items():
        lines.append(_("  --model {name}/NAME    {where} is set").format(name=name, where=where))
    lines.append(_("  --model ollama/NAME    a server on this machine: ollama, lmstudio, llamacpp or vllm"))
    lines.append(
        _("  --model {name}          a small model on this machine: no key; 93 MB, fetched once").format(name=EMBEDDED)
    )
    if not error.with_key:
        lines.append(_("or give a key: export ANTHROPIC_API_KEY=…, OPENAI_API_KEY=…, GEMINI_API_KEY=…"))
    lines.append(_("`ferrule models` lists what is here. To keep a choice: export FERRULE_MODEL=PROVIDER/NAME"))
    return "\n".join(lines)
