"""`firn demo` runs from nothing to its proof."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LAST_LINE = re.compile(r"proof: ok rows=(\d+) committed=(\d+) rejected=(\d+)")


def test_the_demo_ends_with_a_proof_that_holds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firn", "demo", "--seconds", "4", "--writers", "3"],
        cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    found = LAST_LINE.fullmatch(done.stdout.splitlines()[-1])
    assert found, done.stdout[-500:]
    rows, committed, _ = map(int, found.groups())
    assert rows > 0
    assert committed > 0
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == [], "the demo leaves something behind where it was started"
