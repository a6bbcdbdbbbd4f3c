"""Replay reaches no thread, file, socket or clock: neither by what it imports nor through a dry run."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[4]
IMPURE: Final = frozenset({
    "asyncio", "concurrent", "contextvars", "ftplib", "http", "importlib", "kazoo", "mmap", "multiprocessing", "os",
    "pathlib", "random", "redis", "secrets", "select", "selectors", "shutil", "signal", "socket", "ssl", "structlog",
    "subprocess", "tempfile", "threading", "time",
})  # fmt: skip
LOCKED_MEMOS: Final = {("firn.storage.avro_shapes", "threading")}
"""Modules that guard what they remember of bytes with a lock, and start no thread."""
CLOCKS: Final = frozenset({"now", "utcnow", "today"})


def modules() -> dict[str, ast.Module]:
    """Every module of firn by its name."""
    found = {}
    for folder in ("coordinator", "model", "storage"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(("firn", *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found[name] = ast.parse(path.read_text())
    return found


def imported(tree: ast.Module) -> set[str]:
    """The names that a module imports, those of `from` imports also with what is taken from them."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.fixture(scope="module")
def reached() -> dict[str, ast.Module]:
    """The modules that replay imports, directly or not."""
    known = modules()
    todo = [name for name in known if name.startswith("firn.coordinator.replay")]
    found = dict.fromkeys(todo)
    while todo:
        for name in imported(known[todo.pop()]) & known.keys():
            if name not in found:
                found[name] = None
                todo.append(name)
    return {name: known[name] for name in found}


def test_replay_imports_nothing_that_reaches_the_world(reached: dict[str, ast.Module]) -> None:
    found = {
        (name, one.partition(".")[0])
        for name, tree in reached.items()
        for one in imported(tree)
        if one.partition(".")[0] in IMPURE
    }
    assert found - LOCKED_MEMOS == set()


def test_replay_calls_no_clock_and_opens_no_file(reached: dict[str, ast.Module]) -> None:
    calls = {
        (name, call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id)
        for name, tree in reached.items()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute | ast.Name)
    }
    assert {(name, what) for name, what in calls if what in CLOCKS | {"open"}} == set()


def test_replay_imports_no_file_store(reached: dict[str, ast.Module]) -> None:
    stores = {"local_files", "object_files", "memory_files", "files", "file_system_tables", "pointers", "sessions"}
    assert {f"firn.storage.{store}" for store in stores} & reached.keys() == set()
