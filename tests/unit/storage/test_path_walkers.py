"""Live files are listed by processes as they are listed here, and here when there is anything about a process."""

import os
import signal
import subprocess
import sys

import pytest

from firn.model.errors import CorruptFile
from firn.storage import path_walkers
from firn.storage.manifest_paths import live_paths
from firn.storage.path_walkers import FILES_MIN, PROGRAM, PathWalkers, listed_paths
from firn.storage.pipe_messages import take
from tests.strategies.manifests import added
from tests.unit.storage.manifest_writing import committed, encode, replace

MANIFESTS = 40


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Three or so manifests a group."""
    monkeypatch.setattr(path_walkers, "GROUP_BYTES", 3 * len(written(0)[1]))


def written(number):
    """A manifest with seven files, and its bytes."""
    encoded = encode([added(f"{number}-{at}") for at in range(7)])
    return committed(encoded, f"file:///t/{number}.avro"), encoded.data


def listed(contents, **options):
    return {row.manifest_path: list(paths) for row, paths in listed_paths(contents, files=FILES_MIN, **options)}


def expected(contents):
    return {row.manifest_path: live_paths(data, manifest=row) for row, data in contents}


@pytest.mark.parametrize("processes", [0, 1, 3, None])
def test_processes_find_what_is_found_here(processes):
    contents = [written(number) for number in range(MANIFESTS)]
    assert listed(contents, processes=processes) == expected(contents)
    assert listed([], processes=processes) == {}


def test_processes_do_find_it():
    group = [written(number) for number in range(2)]
    with PathWalkers(1) as walkers:
        assert walkers.ask(group).result(30) == list(expected(group).values())


def test_a_few_files_start_no_process(monkeypatch):
    monkeypatch.setattr(path_walkers, "PathWalkers", None)
    contents = [written(0)]
    found = {row.manifest_path: paths for row, paths in listed_paths(contents, files=FILES_MIN - 1, processes=1)}
    assert found == expected(contents)


def test_tables_that_are_opened_together_do_not_have_processes_each(monkeypatch):
    contents = [written(number) for number in range(MANIFESTS)]
    first = listed_paths(contents, files=FILES_MIN, processes=1)
    next(first)
    started = path_walkers.PathWalkers
    monkeypatch.setattr(path_walkers, "PathWalkers", None)
    assert listed(contents, processes=1) == expected(contents)
    first.close()
    monkeypatch.setattr(path_walkers, "PathWalkers", started)
    assert listed(contents, processes=1) == expected(contents)
    assert not path_walkers._in_use.locked()


def test_a_damaged_manifest_is_named_by_whoever_asked():
    contents = [written(number) for number in range(MANIFESTS)]
    row, data = contents[1]
    contents[1] = replace(row, added_files_count=6), data
    with pytest.raises(CorruptFile, match=r"1\.avro: 7 entries where the manifest list says 6"):
        listed(contents, processes=1)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_what_a_process_does_not_do_is_done_here(monkeypatch, sent):
    monkeypatch.setattr(path_walkers, "ANSWER_S", 0.3)
    group = [written(number) for number in range(3)]
    with PathWalkers(1) as walkers:
        assert walkers.ask(group).result(30) is not None
        (pid,) = walkers.pids
        os.kill(pid, sent)
        for _ in range(2):
            answered = walkers.answered(group, walkers.ask(group))
            assert {row.manifest_path: paths for row, paths in answered} == expected(group)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("program", ["firn.no.such", "this"], ids=["none", "another"])
def test_a_program_that_is_not_there_or_says_what_nobody_understands_is_done_without(monkeypatch, program):
    monkeypatch.setattr(path_walkers, "PROGRAM", program)
    contents = [written(number) for number in range(MANIFESTS)]
    assert listed(contents, processes=2) == expected(contents)


def test_the_program_ends_with_whoever_asks():
    program = subprocess.run([sys.executable, "-m", PROGRAM], input=b"", stdout=subprocess.PIPE, timeout=30, check=True)
    assert program.stdout == b""


def test_a_message_that_is_cut_is_none(tmp_path):
    (tmp_path / "cut").write_bytes((9).to_bytes(8, "big") + b"12345678")
    with (tmp_path / "cut").open("rb") as stream:
        assert take(stream) is None
