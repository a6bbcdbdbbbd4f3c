"""Imports go one way, and files name nothing that only one machine knows."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import firn.coordinator.client

ROOT = Path(__file__).parents[2]
LAYERS = ("model", "storage", "coordinator", "pipeline")

# What each layer may import of firn.
FIRN_OF = {
    "model": {"firn.model"},
    "storage": {"firn.model", "firn.storage"},
    "coordinator": {"firn.model", "firn.storage", "firn.coordinator"},
    "pipeline": {"firn.model", "firn.storage", "firn.coordinator.client", "firn.pipeline"},
}
# The pipeline's commands are commands: they reach servers, print, and take part in the demo as the coordinator's do.
# Nothing imports them; `firn.coordinator.cli.main` names them, and they are loaded when they are run.
COMMANDS_OF_THE_PIPELINE = ROOT / "pipeline" / "cli"
# model/ is values and pure functions: these libraries compute, and these modules would do more than that.
MODEL_LIBRARIES = {"lz4", "mmh3", "msgspec", "pyroaring", "zstandard"}
IMPURE = {
    *("asyncio", "concurrent", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "shutil"),
    *("socket", "subprocess", "tempfile", "threading", "time"),
}

# What is imported by its name when it is needed, and not before: what most of those who load the module never use, and
# would keep in memory (Arrow, replay in a client), commands, and what need not be installed.
IMPORT_WHEN_NEEDED = {
    "coordinator/cli/connectors.py",
    "coordinator/cli/file.py",
    "coordinator/cli/foretell.py",
    "coordinator/cli/lazy_group.py",
    "coordinator/cli/making.py",
    "coordinator/cli/output.py",
    "coordinator/cli/progress.py",
    "coordinator/cli/table_names.py",
    "coordinator/client/__init__.py",
    "coordinator/client/async_client.py",
    "coordinator/tables/table_reader.py",
    "model/extras.py",
    "pipeline/cli/maintain.py",
    "storage/file_stores.py",
    "storage/log.py",
}


def modules(layer: str) -> Iterator[Path]:
    yield from sorted((ROOT / layer).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a module imports; of `from firn import model`, ``firn.model``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path}:{node.lineno} is a relative import"
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)


def inside(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def may_import(path: Path, layer: str) -> set[str]:
    if path.is_relative_to(COMMANDS_OF_THE_PIPELINE):
        return {*FIRN_OF[layer], "firn.coordinator.cli", "firn.coordinator.demo"}
    return FIRN_OF[layer] - ({"firn.pipeline.cli"} if layer == "pipeline" else set())


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_the_layers_below_it(layer):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(layer)
        for line, name in imports(path)
        if inside(name, {"firn", *LAYERS, "tests"}) and not inside(name, may_import(path, layer))
    ]
    assert wrong == []


def test_the_model_does_no_io_and_reads_no_clock():
    allowed = (set(sys.stdlib_module_names) | MODEL_LIBRARIES | {"firn"}) - IMPURE
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules("model")
        for line, name in imports(path)
        if name.split(".")[0] not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", LAYERS)
def test_no_import_hides_in_a_function(layer):
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules(layer)
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert wrong == []


def test_only_these_import_by_name_what_they_need_seldom():
    names = {
        path.relative_to(ROOT).as_posix()
        for layer in LAYERS
        for path in modules(layer)
        if {"import_module", "import_with_extra"} & set(re.findall(r"\w+", path.read_text()))
    }
    assert names == IMPORT_WHEN_NEEDED


@pytest.mark.parametrize("layer", LAYERS)
def test_users_import_the_top_folders_under_firn(layer):
    link = ROOT / "firn" / layer
    assert link.is_symlink()
    assert link.readlink() == Path("..", layer)


def test_every_public_name_is_where_firn_says():
    # They are imported by name when they are first used, so a module that moved away is not missed before.
    for package in (firn, firn.coordinator.client):
        assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_no_file_says_where_packages_come_from():
    # Spelled in two halves, or this file would be the one that says it.
    words = [
        left + right
        for left, right in (
            *(("index-", "url"), ("index_", "url"), ("find-", "links"), ("trusted-", "host"), ("py", "pi.org")),
            *(("python", "hosted.org"), ("registry.", "npmjs"), ("repo1.", "maven"), ("repo.", "maven.apache")),
            *(("proxy.", "golang"), ("index.", "crates.io")),
        )
    ]
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: no list of files to look at")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    files = [ROOT / name for name in listed.decode().split("\0") if name]
    wrong = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in files
        if path.is_file()
        for text in [path.read_bytes().lower()]
        for word in words
        if word.encode() in text
    ]
    assert wrong == []
