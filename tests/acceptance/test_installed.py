"""firn as it is installed: the wheel and the sdist have everything, and each extra brings all that it promises."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from readme_renderer import markdown

from firn.coordinator.embedded.process import GuardedProcess
from firn.coordinator.embedded.server import free_port
from tests.acceptance.reader import Reader
from tests.documents import DOCS, ROOT, page
from tests.installations import BUILT_COMMIT, PROJECT_URL, Built, Installation, described

README = ROOT / "README.md"
INSTALL_S = 200.0
START = DOCS / "start.md"
DOCKER = ROOT / "deploy" / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
(IMAGE_PYTHON,) = set(re.findall(r"^FROM python:(3\.\d+)-", DOCKERFILE, re.MULTILINE))
(HEALTH_CHECK,) = re.findall(r'^ *CMD \["python", "-c", "(.*)"\]$', DOCKERFILE, re.MULTILINE)
SUPPORTED = [
    line.rpartition(":: ")[2]
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", line)
]

EVERY_NAME = """
import firn, firn.coordinator.client
for package in (firn, firn.coordinator.client):
    for name in package.__all__:
        try:
            getattr(package, name)
        except firn.FirnError as error:
            print(name, error, sep=": ")
"""

EVERY_COMMAND = """
import click
from firn.coordinator.cli.main import COMMANDS
from firn.model.errors import Misconfigured
for name, command in COMMANDS.items():
    try:
        todo = [command.load()]
    except Misconfigured as error:
        print(name, error, sep=": ")
        continue
    for one in todo:
        todo += one.commands.values() if isinstance(one, click.Group) else ()
        one.get_help(click.Context(one))
"""

EVERY_MODULE = """
import importlib, pathlib, sys
import firn.{folder} as top
root = pathlib.Path(top.__path__[0])
for path in sorted(root.rglob("*.py")):
    importlib.import_module(".".join(("firn", root.name, *path.relative_to(root).with_suffix("").parts)))
print(len(sys.modules))
"""

POSITION_DELETES = """
import pathlib, uuid
import pyarrow as pa, pyarrow.parquet as pq
from firn import Client, ContentFile, arrow_schema, data_files_from_parquet

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
POSITIONS = pa.schema([
    pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
    pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
])

def new(rows):
    path = pathlib.Path(table.location, f"{uuid.uuid4()}.parquet")
    pq.write_table(rows, path)
    return path

def deletes(positions):
    path = new(pa.table({"file_path": [data.file_path] * len(positions), "pos": positions}, schema=POSITIONS))
    return ContentFile(
        content="position-deletes", file_path=str(path), file_format="parquet", spec_id=0, partition=[],
        record_count=len(positions), file_size_in_bytes=path.stat().st_size, referenced_data_file=data.file_path,
    )

with Client() as client:
    client.create_table("db.deletes", SCHEMA).committed(timeout=30)
    table = client.table("db.deletes")
    [data] = data_files_from_parquet(
        [new(pa.table({"id": [1, 2, 3, 4]}, schema=arrow_schema(table.schema)))], table
    )
    base = client.append("db.deletes", [data]).committed(timeout=30).snapshot_id
    first = client.row_delta("db.deletes", base_snapshot_id=base, deletes=[deletes([0, 1])]).result(timeout=30)
    changed = lambda: data_files_from_parquet(
        [new(pa.table({"id": [9]}, schema=arrow_schema(table.schema)))], table
    )
    answers = [first] + [
        client.row_delta(
            "db.deletes", base_snapshot_id=base, deletes=[deletes([position])], added=changed(),
            isolation="snapshot",
        ).result(timeout=30)
        for position in (2, 1)
    ]
    print(*(getattr(answer, "rule", "committed") for answer in answers))
"""
"""Two updates on the base of a delete: only positions tell that the first is of another row, and the second is not."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def with_extras(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Installation]:
    made: dict[tuple[str, ...], Installation] = {}

    def of(*extras: str) -> Installation:
        if extras not in made:
            made[extras] = Installation(tmp_path_factory.mktemp("environment"), built.wheel, extras)
        return made[extras]

    return of


def contents(wheel: Path) -> dict[str, bytes]:
    """What a wheel installs, other than its list of files and what a compiler made."""
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist() if not name.endswith(("/RECORD", ".so"))}


def test_the_wheel_has_every_file_of_the_packages(built: Built) -> None:
    packages = [ROOT / name for name in ("firn", "model", "storage", "coordinator", "pipeline")]
    here = {
        f"firn/{path.relative_to(ROOT)}" if top.name != "firn" else str(path.relative_to(ROOT))
        for top in packages
        for path in top.rglob("*")
        if path.is_file() and not {"__pycache__"} & set(path.parts) and path.suffix not in {".so", ".c", ".pyi", ".pyc"}
    }
    missing = here - contents(built.wheel).keys()
    assert len(here) > 500
    assert sorted(missing) == []


def test_the_sdist_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    assert contents(built.wheel_of_sdist(tmp_path)) == contents(built.wheel)


def about(archive: Path) -> Metadata:
    """What a wheel or an sdist says of itself, checked as a package index does."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            (text,) = (packed.read(name) for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
    else:
        with tarfile.open(archive) as packed_sources:
            (name,) = (name for name in packed_sources.getnames() if re.fullmatch(r"[^/]+/PKG-INFO", name))
            found = packed_sources.extractfile(name)
            assert found is not None
            text = found.read()
    return Metadata.from_email(text, validate=True)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_package_says_all_that_an_index_shows(kind: str, built: Built) -> None:
    said = about(getattr(built, kind))
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (said.name, str(said.version)) == (declared["name"], declared["version"])
    assert said.summary == declared["description"]
    assert said.author == "The firn developers"
    assert (said.license_expression, said.license_files) == ("Apache-2.0", ["LICENSE"])
    assert str(said.requires_python) == declared["requires-python"]
    assert said.keywords == declared["keywords"]
    assert SUPPORTED[0] == declared["requires-python"].removeprefix(">=")
    assert set(said.classifiers or ()) == set(declared["classifiers"])
    assert set(said.provides_extra or ()) == set(declared["optional-dependencies"])
    urls = said.project_urls or {}
    assert set(urls) == {"Source", "Documentation", "Changelog", "Issues"}
    assert [url for url in urls.values() if not url.startswith(PROJECT_URL)] == []


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_description_renders_on_an_index(kind: str, built: Built) -> None:
    """Rendered by what package indexes render with, which gives nothing where it fails; every link leads there."""
    said = about(getattr(built, kind))
    assert said.description_content_type == "text/markdown"
    html = markdown.render(said.description or "")
    assert html is not None
    assert "many writers, one table" in html
    assert '<a href="https://iceberg.apache.org"' in html
    assert "&lt;!--" not in html
    links = {target for target in re.findall(r"""(?:href|src)=["']([^"']*)["']""", html) if not target.startswith("#")}
    assert [link for link in links if not link.startswith("https://")] == []
    to_files = {link.removeprefix(f"{PROJECT_URL}/blob/{BUILT_COMMIT}/") for link in links if PROJECT_URL in link}
    assert len(to_files) > 10
    assert [name for name in to_files if not (ROOT / name.partition("#")[0]).exists()] == []


def test_a_build_without_an_address_has_no_links_to_files(tmp_path: Path) -> None:
    text = described(PROJECT_URL="")
    assert [link for link in re.findall(r"\]\(([^)]*)\)", text) if not link.startswith("https://")] == []
    assert "many writers, one table" in text


def test_a_build_knows_its_commit(with_extras: Callable[..., Installation], built: Built, tmp_path: Path) -> None:
    assert contents(built.wheel)["firn/commit.txt"].decode() == f"{BUILT_COMMIT}\n"
    said = with_extras("server").runs("firn", "version", "--json", folder=tmp_path)
    assert json.loads(said.stdout)["commit"] == BUILT_COMMIT


def test_a_client_alone_names_the_extra_of_all_that_it_lacks(
    with_extras: Callable[..., Installation], tmp_path: Path
) -> None:
    client = with_extras()
    said = client.runs("python", "-c", EVERY_NAME, folder=tmp_path)
    assert said.returncode == 0, said.stdout
    named = {line.partition(":")[0]: line.rpartition("pip install ")[2] for line in said.stdout.splitlines()}
    assert named == dict.fromkeys(
        ("arrow_schema", "data_files_from_parquet", "with_encoded_metrics"), "'firn[parquet]'"
    )
    for command in (("firn",), ("firn", "serve"), ("python", "-m", "firn", "--version")):
        done = client.runs(*command, folder=tmp_path)
        assert (done.returncode, done.stdout.count("\n")) == (2, 1), done.stdout
        assert "the firn command needs it: pip install 'firn[server]'" in done.stdout


@pytest.mark.parametrize(
    ("extras", "absent"),
    [
        (["server"], {"demo": "demo", "maintain": "maintain", "report": "maintain", "spark": "spark"}),
        (["maintain"], {"demo": "demo", "spark": "spark"}),
        (["spark", "demo"], {}),
    ],
)
def test_every_command_works_or_names_its_extra(
    with_extras: Callable[..., Installation], extras: list[str], absent: dict[str, str], tmp_path: Path
) -> None:
    said = with_extras(*extras).runs("python", "-c", EVERY_COMMAND, folder=tmp_path)
    assert said.returncode == 0, said.stdout
    assert {
        line.partition(":")[0]: line.rpartition("firn[")[2].strip("]'") for line in said.stdout.splitlines()
    } == absent


@pytest.mark.parametrize(
    ("extras", "folder"),
    [(["server", "s3", "orc"], "storage"), (["server"], "model"), (["spark"], "pipeline")],
)
def test_every_module_can_be_imported(
    with_extras: Callable[..., Installation], extras: list[str], folder: str, tmp_path: Path
) -> None:
    done = with_extras(*extras).runs("python", "-c", EVERY_MODULE.format(folder=folder), folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout) > len(list((ROOT / folder).rglob("*.py")))


@pytest.fixture(scope="module")
def reader(with_extras: Callable[..., Installation], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    somebody = Reader(tmp_path_factory.mktemp("reader"), programs=with_extras("demo").bin)
    try:
        somebody.wait_ready()
        yield somebody
    finally:
        somebody.end()


def test_a_writer_commits_and_replays_position_deletes(
    with_extras: Callable[..., Installation], reader: Reader
) -> None:
    writer = with_extras("parquet")
    (first,) = (block for block in page(README).blocks if block.is_run and block.language == "python")
    done = writer.runs("python", "-c", first.text, folder=reader.folder)
    assert done.returncode == 0, done.stdout
    assert "Committed" in done.stdout
    done = writer.runs("python", "-c", POSITION_DELETES, folder=reader.folder)
    assert done.stdout.split() == ["committed", "committed", "row-conflict"], done.stdout + reader.log


def test_the_first_fifteen_minutes_work_from_the_wheel(reader: Reader) -> None:
    for block in page(START).blocks:
        if block.is_run:
            reader.runs(block)


def pythons(version: str) -> Iterator[Path]:
    """Yield programs that may be a Python of a version; those of pyenv on the path may be shims without one."""
    yield from sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if (found := shutil.which(f"python{version}")) is not None:
        yield Path(found)


def starts(program: Path) -> bool:
    return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0


class OtherPython:
    """An empty environment of another Python than the one here; packages are an index's, which has them for it."""

    def __init__(self, version: str, folder: Path) -> None:
        program = next((one for one in pythons(version) if starts(one)), None)
        uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        if program is None or uv is None:
            pytest.skip(f"no {'uv' if program else f'Python {version}'} here")
        self._uv = uv
        self._folder = folder
        self.bin = folder / "environment" / "bin"
        subprocess.run([program, "-m", "venv", "--without-pip", self.bin.parent], check=True)

    def install(self, *arguments: str) -> None:
        done = subprocess.run(
            [self._uv, "pip", "install", "--quiet", "--python", str(self.bin / "python"), *arguments],
            capture_output=True, text=True, timeout=INSTALL_S, check=False,
        )  # fmt: skip
        if done.returncode and "client error" in done.stderr:
            pytest.skip(f"no package index: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr

    def says(self, program: str, **settings: str) -> str:
        done = subprocess.run(
            [self.bin / "python", "-c", program], cwd=self._folder, env=os.environ | settings,
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_wheel_works_on_every_python(version: str, built: Built, tmp_path: Path) -> None:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("the others of these tests are of this Python")
    if version == IMAGE_PYTHON:
        pytest.skip("the image's Python: the next test")
    other = OtherPython(version, tmp_path)
    other.install(f"firn[server] @ {built.wheel.as_uri()}")
    named = {line.partition(":")[0] for line in other.says(EVERY_COMMAND).splitlines()}
    assert named == {"demo", "maintain", "report", "spark"}


def test_the_image_s_lock_serves_and_commits(built: Built, reader: Reader, tmp_path: Path) -> None:
    """As the Dockerfile does it, with the image's Python: the lock with its hashes, then firn and nothing else."""
    other = OtherPython(IMAGE_PYTHON, tmp_path)
    other.install("--require-hashes", "--requirement", str(DOCKER / "requirements.lock"))
    other.install("--no-deps", str(built.wheel))
    assert {line.partition(":")[0] for line in other.says(EVERY_COMMAND).splitlines()} == {"demo", "spark"}
    at = json.loads((reader.folder / "data" / "endpoints.json").read_text())
    settings = {
        "FIRN_REDIS_URL": at["redis-url"].removesuffix("/0") + "/1",  # not the reader's daemon's
        "FIRN_ZOOKEEPER": at["zookeeper-hosts"], "FIRN_ZOOKEEPER_ROOT": "/image",
        "FIRN_WAREHOUSE": str(tmp_path / "warehouse"), "FIRN_HTTP_PORT": str(port := free_port()),
    }  # fmt: skip
    (tmp_path / "warehouse").mkdir()
    with (tmp_path / "daemon.log").open("wb") as log:
        daemon = GuardedProcess(
            [str(other.bin / "firn"), "serve"], folder=tmp_path, log=log, environment=os.environ | settings
        )
    try:
        check = HEALTH_CHECK.replace(":8080/", f":{port}/")
        ends_at = time.monotonic() + INSTALL_S
        while subprocess.run([other.bin / "python", "-c", check], capture_output=True, check=False).returncode:
            assert daemon.running, (tmp_path / "daemon.log").read_text()
            assert time.monotonic() < ends_at, (tmp_path / "daemon.log").read_text()
        assert other.says(POSITION_DELETES, **settings).split() == ["committed", "committed", "row-conflict"]
    finally:
        daemon.terminate(grace_seconds=30)
    assert daemon.exit_code == 0, (tmp_path / "daemon.log").read_text()
