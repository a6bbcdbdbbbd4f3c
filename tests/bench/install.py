"""Row `install`: what firn and each of its extras bring to an environment, and what a client takes to import.

The wheel is built and installed into empty environments, with what its metadata asks for. Sizes are of the installed
files; bytecode, which Python writes as it imports, comes on top for both sides.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.bench.measurement import PROJECT, Measurement, measured, median
from tests.bench.options import Options
from tests.installations import Built, Installation

IMPORTS: Final = 15
"""Fresh processes for each side; the two take turns."""

PEER: Final = "pyiceberg[pyarrow]"
IMPORT: Final = "import time; began = time.process_time(); {}; print(time.process_time() - began)"
SIDES: Final = {"from firn.coordinator.client import Client": "firn", "from pyiceberg.catalog import Catalog": "peer"}
MEGABYTE: Final = 1_000_000


def install(_: Options) -> list[Measurement]:
    """Megabytes and packages of `pip install firn` and of each extra; processor time of the client's import."""
    with environments() as (folder, wheel):
        peer = Installation(folder / "peer", None, beside=[PEER])
        environment = {"firn": Installation(folder / "firn", wheel), "peer": peer}
        found = [size_of("install", environment["firn"], peer, "pip install firn")]
        for extra in extras():
            one = Installation(folder / extra, wheel, [extra])
            found.append(size_of(f"install-{extra}", one, peer, f"pip install 'firn[{extra}]'"))
        return [*found, imports(environment, folder)]


@contextmanager
def environments() -> Iterator[tuple[Path, Path]]:
    """A folder for environments, and the wheel that goes into them."""
    with TemporaryDirectory(prefix="firn-bench-") as temporary:
        folder = Path(temporary)
        (folder / "built").mkdir()
        yield folder, Built(folder / "built").wheel


def extras() -> list[str]:
    """Return the extras that users install."""
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [extra for extra in declared if extra != "test"]


def size_of(row: str, one: Installation, peer: Installation, what: str) -> Measurement:
    """Compare what an environment holds with the peer's."""
    return measured(
        row, value=one.size_bytes / MEGABYTE, unit="MB", peer=peer.size_bytes / MEGABYTE, peer_name=PEER, target=None,
        n=one.packages, note=f"{what}: {one.packages} packages; the peer has {peer.packages}",
    )  # fmt: skip


def imports(environment: Mapping[str, Installation], folder: Path) -> Measurement:
    """Compare the import of a client in fresh processes, after one that wrote the bytecode."""
    took_ms: dict[str, list[float]] = {side: [] for side in environment}
    for attempt in range(IMPORTS + 1):
        for statement, side in SIDES.items():
            done = environment[side].runs("python", "-c", IMPORT.format(statement), folder=folder)
            assert done.returncode == 0, done.stdout
            if attempt:
                took_ms[side].append(float(done.stdout) * 1000)
    note = f"fastest {min(took_ms['firn']):.0f} and {min(took_ms['peer']):.0f} ms"
    return measured(
        "install-import", value=median(took_ms["firn"]), unit="ms", peer=median(took_ms["peer"]),
        peer_name="PyIceberg's Catalog", target=None, n=IMPORTS, note=note,
    )  # fmt: skip
