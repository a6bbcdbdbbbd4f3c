"""What people are told is written for one as for many: nobody reads of `1 files`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = ("cli", "client", "demo", "fsck", "insight", "operations", "outcomes", "pages", "recovery", "replay")
FOLDERS = (*(ROOT / "coordinator" / name for name in SHOWN), ROOT / "model", ROOT / "pipeline", ROOT / "storage")

COUNTED = re.compile(
    r"^ ((added|more|other|older|live|dead|delete|data|journal|partition|smaller) )*"
    r"(actions|breaches|columns|commits|conflicts|containers|daemons|decisions|entries|events|fields|files|groups|hours"
    r"|intents|items|keys|letters|manifests|nulls|orphans|partitions|pointers|records|rejections|reservations|results"
    r"|rows|segments|shards|snapshots|swaps|tables|values|views|writers)(?![\w=/-])"
)
NO_COUNT = re.compile("(_max|_MAX|_id|type|format|kind)$")
"""Limits, which are never one, and what is no number of things."""

IN_TEMPLATES = re.compile(r"\{\{((?:(?!\}\}).)*)\}\}((?:(?! \{\{).)*)")


def counted_for_many(path: Path) -> Iterator[str]:
    """Places of an f-string in which a number stands before a noun that says there are many of them.

    A limit (``FILES_MAX``, ``limits.files_max``) is many.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                    continue
                name, after = ast.unparse(value.value), str(text.value)
                if not NO_COUNT.search(name) and COUNTED.match(after):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: {{{name}}}{after}"


def test_the_search_finds_what_it_is_for(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    source = tmp_path / "told.py"
    source.write_text(
        'a = f"{len(x):,} partitions counted"\nb = f"at most {FILES_MAX} files, {snapshot_id} added files"\n'
        "c = f\"{plural(n, 'file')} of 3\"\n"
    )
    assert list(counted_for_many(source)) == ["told.py:1: {len(x)} partitions counted"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_nobody_is_told_of_one_files(folder):
    wrong = [found for path in sorted(folder.rglob("*.py")) for found in counted_for_many(path)]
    assert wrong == [], "say plural(count, noun) of firn.model.amounts"


def test_no_page_tells_of_one_files():
    wrong = [
        f"{path.relative_to(ROOT)}: {{{{{value}}}}}{text[:40]}"
        for folder in (ROOT / "coordinator" / "pages" / "templates", ROOT / "pipeline" / "templates")
        for path in sorted(folder.glob("*.html"))
        for value, text in IN_TEMPLATES.findall(path.read_text())
        if COUNTED.match(text) and "_max" not in value
    ]
    assert wrong == []
