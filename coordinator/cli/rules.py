"""Names of rules, by which refusals are looked for: a misspelt one finds nothing, and looks like good news."""

from __future__ import annotations

from collections.abc import Iterable

from firn.coordinator.cli.output import complain
from firn.coordinator.cli.text import shown
from firn.coordinator.replay.rules import RULES
from firn.model.spelling import did_you_mean


def complain_of_unknown(rules: Iterable[str]) -> None:
    """Say of each that is no rule which was most likely meant. Daemons of another version may have it all the same."""
    for rule in rules:
        if rule not in RULES:
            advice = did_you_mean(rule, RULES)
            complain(f"firn: no rule is called {shown(repr(rule))}: {advice or 'docs/replay.md lists them'}")
