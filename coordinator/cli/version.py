"""`firn version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import click

from firn.coordinator.cli.output import Output
from firn.coordinator.version import VERSION, build_commit
from firn.storage.compiled import IS_COMPILED

PACKAGES: Final = ("msgspec", "fastavro", "kazoo", "redis", "pyarrow", "obstore")


@click.command("version")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version_command(*, as_json: bool) -> None:
    """Say the version of firn and of what it runs on."""
    output = Output(as_json=as_json)
    ours = {"firn": VERSION, "commit": build_commit(), "python": platform.python_version()}
    packages = {name: _installed(name) for name in PACKAGES}
    if as_json:
        output.document({**ours, "compiled": IS_COMPILED, **packages})
    shown = {**ours, "compiled": "yes" if IS_COMPILED else "no", **packages}
    output.pairs([(name, text or "not installed") for name, text in shown.items()])


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
