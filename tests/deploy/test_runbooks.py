"""What runbooks tell people to type is there, and each alert's says how to know that it is over."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import click
import pytest
import yaml

from firn.coordinator.cli.main import firn
from tests.deploy.prometheus import RULES
from tests.deploy.servers import DEPLOY

RUNBOOKS = sorted((DEPLOY.parent / "docs" / "runbooks").glob("*.md"))
TEXTS = {path.name: path.read_text() for path in RUNBOOKS}
ALERTS = [
    rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"] if "alert" in rule
]
COMMANDS = sorted({
    (name, " ".join(said.split()))
    for name, text in TEXTS.items()
    for said in re.findall(r"`(firn [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    if not said.startswith("firn: ")
})  # fmt: skip


def section(alert: str) -> str:
    """What the runbooks say of an alert."""
    (found,) = (
        match.group(1)
        for text in TEXTS.values()
        if (match := re.search(rf"^## {alert}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    )
    return found


def known_options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def unknown_in(words: Sequence[str]) -> list[str]:
    """What of a `firn` command line is no command and no option."""
    command: click.Command = firn
    context = click.Context(command)
    left = list(words)
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        sub = command.get_command(context, left[0])
        if sub is None:
            return [] if getattr(command, "invoke_without_command", False) else left[:1]
        command, context = sub, click.Context(sub, parent=context)
        left.pop(0)
    asked = [word.partition("=")[0] for word in left if word.startswith("--")]
    return [word for word in asked if word not in known_options(command) | {"--help"}]


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_says_when_it_is_over(alert: str) -> None:
    assert re.search(r"^\*Over when\* .+\.$", section(alert), re.MULTILINE)


@pytest.mark.parametrize(("page", "said"), COMMANDS)
def test_every_command_of_a_runbook_is_one(page: str, said: str) -> None:
    assert unknown_in(shlex.split(said)[1:]) == [], f"{page}: {said}"


def test_what_is_no_command_is_found() -> None:
    assert unknown_in(["statsu"]) == ["statsu"]
    assert unknown_in(["conflicts", "--sicne", "1h"]) == ["--sicne"]
    assert unknown_in(["dead-letters", "drop", "--rule", "x", "--untli=7d"]) == ["--untli"]
    assert len(COMMANDS) > 20
