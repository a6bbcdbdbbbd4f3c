"""The recorded first week, in two minutes: all that must hold of the long one holds of this one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installations import ROOT

MINUTES = 2
KEPT = 200
"""Snapshots of a table, so that the base of the compactions has expired before they are submitted."""


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(1500)
def test_a_first_week_ends_well(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.first_week", "--minutes", str(MINUTES), "--snapshots-max", str(KEPT),
         "--linked", "--keep", str(tmp_path / "week")],
        cwd=ROOT, capture_output=True, text=True, timeout=1400, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    table = dict(line.strip("| ").split(" | ", 1) for line in done.stdout.splitlines() if line.startswith("| "))
    assert table["rows"].endswith("there; 0 lost, 0 doubled, 0 that nobody committed")
    assert table["refused or unknown, not meant"] == "none"
    assert {"table-exists", "missing-file", "unknown-table"} <= set(table["refused, as meant"].replace(",", "").split())
    expired = table["compaction, base not reserved"]
    assert expired.startswith("committed")
    assert expired.endswith("expired meanwhile")
    if shutil.which("prometheus"):
        assert "not measured" not in table["alerts that fired"]
