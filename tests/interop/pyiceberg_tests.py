"""PyIceberg's own integration tests, which its source distribution has, against a catalog at another address.

They are run as they are, but for the address, and for modules that these tests import and do not use: those of a mocked
S3, and the client of a Hive metastore.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from tests.interop.verdicts import Verdicts
from tests.spark_session import leave_out

VERSION: Final = version("pyiceberg")
ARCHIVE: Final = f"pyiceberg-{VERSION}.tar.gz"
FOLDER: Final = Path.home() / ".cache" / "firn-tests"
THEIR_ADDRESS: Final = "http://localhost:8181"
FETCH_SECONDS: Final = 120
RUN_SECONDS: Final = 600
OUTPUT_CHARACTERS: Final = 3000

NOT_USED: Final = {"boto3.py": "client = None\n", "moto.py": "mock_aws = None\n"}
NOT_IMPORTED: Final = {"from pyiceberg.catalog.hive import HiveCatalog\n": "HiveCatalog = None\n"}
SETTINGS: Final = "[pytest]\nmarkers =\n    integration\n    s3\n    adls\n    gcs\n    benchmark\n    notebook\n"


class PyIcebergTests:
    """Their tests, unpacked into a folder. Where no index has them, the test is skipped; in CI it fails."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder = folder
        with tarfile.open(_archive()) as archive:
            archive.extractall(folder, filter="data")
        unpacked = folder / ARCHIVE.removesuffix(".tar.gz") / "tests"
        unpacked.rename(folder / "tests")  # beside their package its sources would be imported, not what is installed
        for path in (folder / "tests" / "conftest.py", *(folder / "tests" / "integration").glob("*.py")):
            path.write_text(_at_another_address(path.read_text(encoding="utf-8"), uri), encoding="utf-8")
        (folder / "not_used").mkdir()
        for name, text in NOT_USED.items():
            (folder / "not_used" / name).write_text(text)
        (folder / "pytest.ini").write_text(SETTINGS)

    def run(self, *modules: str, chosen: str) -> Verdicts:
        """Run the integration tests of these modules that pytest's ``-k`` chooses."""
        report = self._folder / "report.xml"
        options = ["-q", "--tb=short", "-c", "pytest.ini", "--rootdir=.", f"--junitxml={report}", "-k", chosen]
        without = [f"-pno:{plugin}" for plugin in ("valkey", "asyncio", "xdist", "cacheprovider")]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *without, *(f"tests/integration/{one}.py" for one in modules)],
            cwd=self._folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(["not_used", "."])},
            capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
        )  # fmt: skip
        assert report.exists(), done.stdout[-OUTPUT_CHARACTERS:] + done.stderr[-OUTPUT_CHARACTERS:]
        return Verdicts.read([report])


def provide_tables(uri: str) -> None:
    """Make what these tests expect to be there, and which PyIceberg's project makes with Spark."""
    catalog = RestCatalog("tests", uri=uri)
    catalog.create_namespace_if_not_exists("default")
    table = catalog.create_table("default.test_table_snapshot_operations", pa.schema([pa.field("number", pa.int32())]))
    for number in range(1, 4):
        table.append(pa.table({"number": pa.array([number], pa.int32())}))
    table.delete("number = 2")
    for number in range(4, 6):
        table.append(pa.table({"number": pa.array([number], pa.int32())}))


def _at_another_address(text: str, uri: str) -> str:
    for old, new in {THEIR_ADDRESS: uri, **NOT_IMPORTED}.items():
        text = text.replace(old, new)
    return text


def _archive() -> Path:
    """The source distribution of the PyIceberg that is installed; fetched once."""
    path = FOLDER / ARCHIVE
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-binary=pyiceberg", f"--dest={FOLDER}"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", *options, f"pyiceberg=={VERSION}"],
            capture_output=True, text=True, timeout=FETCH_SECONDS, check=False,
        )  # fmt: skip
        if not path.exists():
            leave_out(f"needs the source distribution {ARCHIVE}, which pip did not fetch: {done.stderr[-500:]}")
    return path
