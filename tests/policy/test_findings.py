"""What the lists say of one path."""

from __future__ import annotations

from ferrule.pipeline.stages import Verdict
from ferrule.policy.findings import Lists, Request, inside, shown, weigh_path
from ferrule.policy.rules import RuleSet, parse_rules
from ferrule.policy.sensitive import Guarded

ROOTS = ("/ws", "/added")


def lists(*, deny: str = "", ask: str = "", allow: str = "", edits: bool = False) -> Lists:
    def rules(text: str, verdict: Verdict) -> RuleSet:
        return RuleSet.of(parse_rules([text] if text else [], verdict))

    return Lists(rules(deny, Verdict.DENY), rules(ask, Verdict.ASK), (rules(allow, Verdict.ALLOW),), Guarded(), edits)


def test_each_list_is_asked():
    found = weigh_path("/ws/a", Request(ROOTS), lists(deny="Read(a)", ask="Read(*)", allow="Read(/a)"), write=False)
    assert [rule and rule.text for rule in (found.denied, found.asked, found.rule)] == [
        "Read(a)",
        "Read(*)",
        "Read(/a)",
    ]
    assert found.leave == "`Read(/a)` from the program allows it"


def test_accepted_edits_stay_in_the_workspace_and_its_added_folders():
    accepting = lists(edits=True)
    assert [
        bool(weigh_path(path, Request(ROOTS), accepting, write=True).leave)
        for path in ("/ws/a", "/added/b", "/wsx/a", "/etc/hosts", "/ws/.git/config")
    ] == [True, True, False, False, False]


def test_a_path_is_shown_as_a_model_knows_it():
    assert [shown(path, ROOTS) for path in ("/ws/a/b", "/ws", "/added/b")] == ["a/b", "/ws", "/added/b"]
    assert inside("/anything", ("/",))


def test_the_first_lack_stands():
    found = weigh_path("/ws/a", Request(ROOTS), lists(allow="Read(a)"), write=False)
    found.lacks("first")
    found.lacks("second")
    assert (found.leave, found.need) == ("", "first")
