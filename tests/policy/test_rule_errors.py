"""A rule that cannot work."""

from __future__ import annotations

import pytest

from ferrule.policy.decide import RulePolicy
from ferrule.policy.patterns import RuleError


def test_a_program_that_gives_a_wrong_rule_hears_which_and_why():
    with pytest.raises(RuleError, match=r"The rule `Bash\(\)` cannot work: the brackets are empty"):
        RulePolicy(deny=["Bash()"])
