"""Whatever the bytes are, compiled code reads and writes within its bounds, and keeps nothing."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tracemalloc
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

import firn.storage.native
from firn.storage.compiled import IS_COMPILED
from tests.strategies.examples import AT_LENGTH
from tests.unit.storage.listed_files import LEFT, TAKEN, encoded
from tests.unit.storage.read_twice import FILE, spelled

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="firn was installed without a C compiler: nothing is compiled")

SOURCE: Final = Path(firn.storage.native.__file__).with_name("wire_files.c")
PROGRAM: Final = Path(__file__).with_name("damaging_program.py")
DAMAGED: Final = 2_000_000 if AT_LENGTH else 50_000

WHOLE: Final = spelled(FILE).partition(b'"data-files":[')[2]
"""A list with all that a file may have, and what stands behind it."""

ENDLESS: Final = [
    b"\0" * 9 + b"\x02" + b"\xff" * 30,
    b"\x02" + b"\xfe\xff\xff\xff\x0f" + b"\x02" * 20,
    b"\0" * 4 + b"\x02\x02\x02\x80\x80\x08" + b"\0" * 7,
    b"\0" * 6 + b"\x02" + b"\xfe\xff\xff\xff\x0f" + b"\0" * 3,
]
"""Encoded metrics that say of themselves that they are longer than they are."""

LISTS: Final = [
    WHOLE,
    *(text.encode() + b"]" for text in (*TAKEN.values(), *LEFT.values())),
    *(encoded(base64.b64encode(metrics).decode()).encode() + b"]" for metrics in ENDLESS),
]

# ---------------------------------------------------------------------------------------------------------------------
# Bounds


class Sanitizer:
    """Builds of the compiled code that end the process at the first byte out of bounds, or arithmetic out of range."""

    FLAGS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        compiler = shutil.which("gcc")
        if compiler is None:
            pytest.skip("no GCC")
        self.compiler = compiler
        self.include = sysconfig.get_paths()["include"]
        found = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        self.library = found.stdout.strip()
        if not Path(self.library).is_absolute() or not Path(self.include, "Python.h").exists():
            pytest.skip("no libasan.so beside GCC, or no Python.h")
        if self.run("-c", "").returncode:
            pytest.skip("Python does not start with AddressSanitizer here")

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Python with the sanitizer; each of its objects has a block of memory of its own."""
        environment = {
            **os.environ, "LD_PRELOAD": self.library, "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0",
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, "-S", *arguments], env=environment, capture_output=True, text=True, check=False,
            timeout=1_200,
        )  # fmt: skip

    def read_damaged(self, source: str) -> subprocess.CompletedProcess[str]:
        """Have a module of this source read damaged lists."""
        text, module, seeds = (self.folder / name for name in ("wire_files.c", "wire_files.so", "seeds.json"))
        text.write_text(source)
        subprocess.run([self.compiler, *self.FLAGS, f"-I{self.include}", text, "-o", module], check=True)
        seeds.write_text(json.dumps([base64.b64encode(one).decode() for one in LISTS]))
        return self.run(PROGRAM, module, seeds, str(DAMAGED))


@pytest.fixture
def sanitizer(tmp_path: Path) -> Sanitizer:
    return Sanitizer(tmp_path)


@pytest.mark.timeout(1_500)
def test_damaged_lists_are_read_within_bounds(sanitizer: Sanitizer) -> None:
    done = sanitizer.read_damaged(SOURCE.read_text())
    assert done.returncode == 0, done.stderr
    read, taken = map(int, done.stdout.split())
    assert read > DAMAGED
    assert taken > DAMAGED // 200


@pytest.mark.parametrize(
    ("bound", "instead"),
    [
        ("text->at >= text->end || *text->at != expected", "*text->at != expected"),
        ("+ 2 * MEMBERS + 2 * VARINT_MAX_BYTES", ""),
        ("count == COLUMNS_MAX || ", ""),
        ("count < PARTITION_MAX && ", ""),
    ],
    ids=["a sign", "room", "columns", "values"],
)
def test_a_bound_that_is_left_out_is_seen(sanitizer: Sanitizer, bound: str, instead: str) -> None:
    source = SOURCE.read_text()
    assert source.count(bound) == 1
    done = sanitizer.read_damaged(source.replace(bound, instead))
    assert done.returncode
    assert re.search("ERROR: AddressSanitizer|runtime error: ", done.stderr)


# ---------------------------------------------------------------------------------------------------------------------
# What is kept


def test_nothing_is_kept() -> None:
    from firn.storage.native.wire_files import read  # noqa: PLC0415 - it need not be there

    lists = [text for text in LISTS if len(text) < 10_000]
    lists += [WHOLE[:end] for end in range(len(WHOLE))]
    lists += [WHOLE[:at] + b"?" + WHOLE[at + 1 :] for at in range(len(WHOLE))]
    shared = (None, True, False, ())
    tracemalloc.start()
    try:
        for text in lists:
            read(text, 0)
        before = tracemalloc.get_traced_memory()[0]
        references = [sys.getrefcount(one) for one in shared]
        for _ in range(100_000 // len(lists) + 1):
            for text in lists:
                read(text, 0)
        kept = tracemalloc.get_traced_memory()[0] - before
        more = [sys.getrefcount(one) - count for one, count in zip(shared, references, strict=True)]
    finally:
        tracemalloc.stop()
    assert kept < 10_000  # others are at work in this process, too
    assert max(more) < 100


NO_MEMORY = """
import _testcapi, json, sys
from firn.storage.native.wire_files import read

failed = 0
for text in map(str.encode, json.load(sys.stdin)):
    expected = read(text, 0)
    spared = whole = 0
    while whole < 20:
        found = "nothing"
        _testcapi.set_nomemory(spared, spared + 1)
        try:
            found = read(text, 0)
        except MemoryError:
            pass
        finally:
            _testcapi.remove_mem_hooks()
        if found == "nothing":
            failed += 1
            whole = 0
        else:
            assert found == expected, (spared, found)
            whole += 1
        spared += 1
print(failed)
"""


@pytest.mark.skipif(find_spec("_testcapi") is None, reason="a Python without its own tests' modules")
def test_where_memory_runs_out_that_is_said() -> None:
    lists = [WHOLE.decode(), *(text + "]" for text in TAKEN.values() if len(text) < 10_000), TAKEN["two"], ""]
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY], input=json.dumps(lists), capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5 * len(lists)
