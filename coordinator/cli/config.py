"""`firn config …`: the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from firn.coordinator.cli.family import Family
from firn.coordinator.cli.output import Output
from firn.coordinator.cli.reach import settings_for
from firn.coordinator.config import load_settings, redacted

CONFIG_OPTION = click.option(
    "--config", type=click.Path(path_type=Path), help="Settings file (default: ./firn.toml if it is there)."
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=Family)
def config() -> None:
    """Check the settings, or show those in force."""


@config.command()
@CONFIG_OPTION
@JSON_OPTION
def check(*, config: Path | None, as_json: bool) -> None:
    """Check the settings file and the environment; says what is wrong and where, and exits with 2."""
    load_settings(config)
    output = Output(as_json=as_json)
    if as_json:
        output.document({"ok": True})
    output.say("ok")


@config.command()
@CONFIG_OPTION
@click.option("--data", type=click.Path(path_type=Path), envvar="FIRN_DATA", help="Those of the daemon on this folder.")
@JSON_OPTION
def show(*, config: Path | None, data: Path | None, as_json: bool) -> None:
    """Print the settings that commands work with, as a settings file; secrets are replaced by ***."""
    settings, _ = settings_for(config, data)
    members = redacted(settings)
    output = Output(as_json=as_json)
    if as_json:
        output.document(members)
    for line in toml_lines(members):
        output.say(line)


def toml_lines(sections: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The settings in TOML; what is not set is a comment."""
    for number, (section, settings) in enumerate(sections.items()):
        if number:
            yield ""
        yield f"[{section}]"
        tables = {name: value for name, value in settings.items() if isinstance(value, Mapping)}
        for name, value in settings.items():
            if value is None:
                yield f"# {name} is not set"
            elif name not in tables:
                yield f"{name} = {_toml(value)}"
        for name, table in tables.items():
            for key, members in table.items():
                yield f"[{section}.{name}.{_toml(key)}]"
                yield from (f"{_toml(member)} = {_toml(value)}" for member, value in members.items())


def _toml(value: Any) -> str:
    r"""JSON's strings, numbers, booleans and lists are TOML's; control characters need no pairs: ``\U``."""
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
