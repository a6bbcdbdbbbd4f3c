"""The documentation hangs together: nothing is out of reach, no link is dead, no block is left out in silence."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from tests.documents import COMMANDS, DATA, DOCS, INDEX, ROOT, page, pages

PAGES = pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
OUTSIDE = re.compile(r"[a-z]+:")
NAMED_FILE = re.compile(r"(?:deploy|docs|grafana|tests)/[\w./-]*\w")
"""A file of ours in a command."""
NAMED_IN_PROSE = re.compile(r"`((?:model|storage|coordinator|pipeline|tests|deploy|grafana|docs)/[\w./-]*)`")
"""A file or folder of ours in a sentence."""


def linked(path: Path) -> Iterator[tuple[int, str, Path, str]]:
    """Links of a page to files: line, text, the file, the anchor in it."""
    for line, target in page(path).links:
        if not OUTSIDE.match(target):
            name, _, anchor = unquote(target).partition("#")
            yield line, target, (path.parent / name).resolve() if name else path, anchor


@PAGES
def test_no_link_is_dead(path: Path) -> None:
    for line, target, file, anchor in linked(path):
        where = f"{path.relative_to(ROOT)}:{line}: {target}"
        assert file.is_relative_to(ROOT), f"{where} leads out of the project"
        assert file.exists(), f"{where} leads to nothing"
        if anchor:
            assert anchor in page(file).anchors, f"{where}: no such heading; there are {sorted(page(file).anchors)}"


def test_every_page_is_reached_from_the_index() -> None:
    """A link to a folder lists its pages."""
    reached, todo = {INDEX}, [INDEX]
    while todo:
        for _, _, target, _ in linked(todo.pop()):
            for file in target.glob("*.md") if target.is_dir() else [target]:
                if file.suffix == ".md" and file not in reached:
                    reached.add(file)
                    todo.append(file)
    assert {path for path in DOCS.rglob("*.md") if path not in reached} == set()


def test_the_readme_leads_to_the_index() -> None:
    assert INDEX in {file for _, _, file, _ in linked(ROOT / "README.md")}


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_the_index_lists_every_page(path: Path) -> None:
    """Those of a folder are listed by a page of their own, or by the folder's name."""
    assert path == INDEX or path in {file for _, _, file, _ in linked(INDEX)}


def test_the_operators_guide_lists_every_alert() -> None:
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules" / "firn.yml").read_text())["groups"]
    alerts = {rule["alert"].lower() for group in groups for rule in group["rules"] if "alert" in rule}
    assert alerts == {anchor for _, _, _, anchor in linked(DOCS / "operators.md") if anchor.startswith("firn")}


@PAGES
def test_every_block_is_run_or_read_or_says_why_not(path: Path) -> None:
    for block in page(path).blocks:
        assert block.language in COMMANDS | DATA, f"{block}: no test knows what to do with {block.language!r}"
        marked = block.not_run is not None or block.exit_code or block.sample
        assert block.language in COMMANDS or not marked, f"{block}: the comment is for blocks of commands"
        assert block.not_run is None or len(block.not_run) > len("no server"), f"{block}: say why it is not run"
        assert not block.sample or block.language == "console", f"{block}: only a console block has output"


@PAGES
def test_blocks_parse(path: Path) -> None:
    for block in page(path).blocks:
        if block.language == "python":
            ast.parse(block.text, filename=str(block))
        elif block.language in COMMANDS:
            checked = subprocess.run(
                ["bash", "-n"], input=block.script, capture_output=True, text=True, timeout=30, check=False
            )
            assert checked.returncode == 0, f"{block}: {checked.stderr}"


@PAGES
def test_commands_that_are_not_run_name_files_that_exist(path: Path) -> None:
    for block in page(path).blocks:
        if block.not_run is not None and block.language != "python":
            for name in NAMED_FILE.findall(block.script):
                assert (ROOT / name).exists(), f"{block}: there is no {name}"


@PAGES
def test_files_that_are_named_exist(path: Path) -> None:
    for name in NAMED_IN_PROSE.findall(path.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), f"there is no {name}"


def test_the_design_says_what_each_folder_is_for() -> None:
    design = (DOCS / "design.md").read_text(encoding="utf-8")
    folders = [path.parent.name for path in (ROOT / "coordinator").glob("*/__init__.py")]
    assert [name for name in folders if f"`{name}/`" not in design] == []


def test_console_blocks_are_told_apart_from_their_output(tmp_path: Path) -> None:
    source = tmp_path / "page.md"
    source.write_text("# A b\n\n<!-- test: exits with 1 -->\n```console\n$ one \\\n  two\nout\n$ three\n```\n# A b\n")
    (block,) = page(source).blocks
    assert block.steps == [("one \\\n  two", ["out"]), ("three", [])]
    assert (block.exit_code, block.is_run) == (1, True)
    assert page(source).anchors == {"a-b", "a-b-1"}


@pytest.mark.parametrize(
    "text", ["```sh\nopen\n", "<!-- test: maybe -->\n```sh\n```\n", "<!-- test: exits with 1 -->\nprose\n"]
)
def test_what_cannot_be_understood_is_no_page(tmp_path: Path, text: str) -> None:
    source = tmp_path / "page.md"
    source.write_text(text)
    with pytest.raises(AssertionError):
        page(source)
