"""What a model is to Ferrule."""

from __future__ import annotations

from ferrule.core.model import ModelError, ModelFault, Usage


def test_usage_adds_up_and_a_price_that_nobody_knows_stays_unknown() -> None:
    assert Usage(1, 2) + Usage(10, 20, 3, 4) == Usage(11, 22, 3, 4, None)
    assert Usage(cost=0.5) + Usage() == Usage(cost=0.5)
    assert (Usage(cost=0.5) + Usage(cost=0.25)).cost == 0.75


def test_an_error_says_what_happened_and_what_to_do() -> None:
    error = ModelError(ModelFault.KEY, "No key for Anthropic.", suggestion="Set ANTHROPIC_API_KEY.")
    assert str(error) == "No key for Anthropic. Set ANTHROPIC_API_KEY."
    assert error.fault == "key"


def test_a_model_that_can_begin_early_is_known_by_it() -> None:
    from ferrule.core.model import Prepares
    from ferrule.models.local.local_model import LocalModel
    from ferrule.testing import ScriptedModel

    assert issubclass(LocalModel, Prepares)
    assert not isinstance(ScriptedModel([]), Prepares)
