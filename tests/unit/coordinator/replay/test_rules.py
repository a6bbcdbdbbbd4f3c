"""The list of rules is whole: the code refuses by no other, the documentation names each of them."""

from __future__ import annotations

import re
from pathlib import Path

from firn.coordinator.replay.rules import RULES

ROOT = Path(__file__).parents[4]
RULE_LITERAL = re.compile(r'rule="([a-z-]+)"')
RULE_CONSTANT = re.compile(r"\brules\.([A-Z_]+)\.|\b([A-Z_]+)\.refused?\(")


def sources() -> str:
    files = [*ROOT.glob("coordinator/**/*.py"), *ROOT.glob("model/*.py")]
    return "\n".join(file.read_text() for file in files if file.name != "rules.py" and "cli" not in file.parts)


def used() -> set[str]:
    text = sources()
    constants = {name for found in RULE_CONSTANT.findall(text) for name in found if name}
    return set(RULE_LITERAL.findall(text)) | {name.lower().replace("_", "-") for name in constants}


def test_every_refusal_in_the_code_is_by_a_declared_rule() -> None:
    assert used() <= set(RULES) | {"rules"}


def test_every_declared_rule_is_used() -> None:
    assert set(RULES) - used() == set()


def test_the_documentation_has_every_rule_as_it_is_declared() -> None:
    text = (ROOT / "docs" / "replay.md").read_text()
    rows = [f"| `{rule.name}` | {rule.hint} | {rule.prevents} |" for rule in RULES.values()]
    listed = [line for line in text.splitlines() if line.startswith("| `")]
    assert listed == rows
