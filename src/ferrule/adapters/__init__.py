"""Ferrule's tools in the loops of other frameworks, and their tools in Ferrule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.adapters.anthropic import anthropic_tools
    from ferrule.adapters.langchain import from_langchain, langchain_tools
    from ferrule.adapters.openai import openai_functions
    from ferrule.adapters.openai_agents import openai_agents_tools
    from ferrule.adapters.pydantic_ai import from_pydantic_ai, pydantic_ai_toolset

__all__ = [
    "anthropic_tools", "from_langchain", "from_pydantic_ai", "langchain_tools", "openai_agents_tools",
    "openai_functions", "pydantic_ai_toolset",
]  # fmt: skip

_PACKAGES = {
    "agents": "openai-agents>=0.24",
    "anthropic": "anthropic>=2.10",
    "langchain_core": "langchain-core>=1.7",
    "openai": "openai>=3.51",
    "pydantic_ai": "pydantic-ai-slim>=2.62",
}
"""What brings each module that an adapter imports."""

_get, __dir__ = lazy_names(
    __name__,
    {
        "adapters.anthropic": ("anthropic_tools",),
        "adapters.langchain": ("from_langchain", "langchain_tools"),
        "adapters.openai": ("openai_functions",),
        "adapters.openai_agents": ("openai_agents_tools",),
        "adapters.pydantic_ai": ("from_pydantic_ai", "pydantic_ai_toolset"),
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ImportError as error:  # also of a version that lacks what is imported
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise ImportError(f"`{name}` needs {package}. Install it: pip install '{package}'") from error
