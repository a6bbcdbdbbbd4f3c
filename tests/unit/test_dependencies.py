"""What the code imports is declared where it is needed, so that an installed wheel works without a test environment."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

EXTRAS = {
    "storage/object_files.py": "s3",
    "coordinator/demo/proof.py": "test",
    "pipeline": "spark",
}
"""Modules and folders that need an extra; without it their importers say which one."""

OPTIONAL = {("coordinator/client/current_trace.py", "opentelemetry"), ("storage/orc_types.py", "pyorc")}
"""Imports that are tried, and done without."""


def declared(*extras: str) -> set[str]:
    """Return the normalized names of the distributions that the project and these extras install."""
    wanted = [*PROJECT["dependencies"], *(one for extra in extras for one in PROJECT["optional-dependencies"][extra])]
    return {normal(re.split(r"[^A-Za-z0-9._-]", requirement)[0]) for requirement in wanted}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(path: Path) -> set[str]:
    """Return the top-level names of third-party modules that a source file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module.partition(".")[0])
    return {name for name in names if name not in sys.stdlib_module_names and name != "firn"}


@pytest.mark.parametrize("folder", ["firn", "model", "storage", "coordinator", "pipeline"])
def test_every_import_is_of_a_declared_dependency(folder: str) -> None:
    by_module = packages_distributions()
    undeclared = []
    files = [path for path in (ROOT / folder).rglob("*.py") if not (folder == "firn" and path.parent.is_symlink())]
    for path in files:
        place = path.relative_to(ROOT).as_posix()
        extras = [extra for prefix, extra in EXTRAS.items() if place == prefix or place.startswith(f"{prefix}/")]
        allowed = declared(*extras)
        for module in sorted(imported(path)):
            distributions = {normal(name) for name in by_module.get(module, [module])}
            if not distributions & allowed and (place, module) not in OPTIONAL:
                undeclared.append(f"{place} imports {module}")
    assert files
    assert undeclared == []
