"""No framework is imported before it is used, and one that is missing is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ferrule.adapters

NEEDS = {
    "pydantic_ai_toolset": ("pydantic_ai", "pydantic-ai-slim"),
    "from_langchain": ("langchain_core", "langchain-core"),
    "openai_agents_tools": ("agents", "openai-agents"),
    "openai_functions": ("openai", "openai"),
    "anthropic_tools": ("anthropic", "anthropic"),
}


def test_every_adapter_is_listed_and_imports_nothing_before_it_is_used() -> None:
    assert dir(ferrule.adapters) == sorted(ferrule.adapters.__all__)
    frameworks = {module for module, _ in NEEDS.values()}
    program = f"import sys, ferrule.adapters; print({frameworks!r} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


@pytest.mark.parametrize("adapter", list(NEEDS))
def test_a_framework_that_is_missing_is_named_with_what_installs_it(
    adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, package = NEEDS[adapter]
    for loaded in [one for one in sys.modules if one.startswith(("ferrule.adapters.", f"{module}."))]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(vars(ferrule.adapters), adapter, raising=False)
    with pytest.raises(ImportError, match=rf"`{adapter}` needs {package}>=[0-9.]+. Install it: pip install"):
        getattr(ferrule.adapters, adapter)


def test_a_name_that_is_none_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'crewai_tools'"):
        _none = ferrule.adapters.crewai_tools  # type: ignore[attr-defined]
