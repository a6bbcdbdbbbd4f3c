"""Processor time by program: what a commit costs servers, kernel and daemon, on however many cores there are."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

PROGRAMS: Final = {
    "file_writing_program": "writing files",
    "calculating.program": "reading intents",
    "firn serve": "daemon",
    "slow_daemon": "daemon",
    "zookeeper": "ZooKeeper",
    "valkey-server": "Redis",
    "redis-server": "Redis",
}
"""By what the command line has; the first that fits."""

DAEMON: Final = frozenset({"daemon", "reading intents"})
PROCESSES: Final = Path("/proc")
"""Linux's; elsewhere nothing is known."""

TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


class Time(msgspec.Struct):
    """Seconds that processes have used, those in the kernel among them."""

    total_s: float = 0.0
    kernel_s: float = 0.0


class Used(msgspec.Struct):
    """What was used meanwhile, by program; the writers of a benchmark are not among them."""

    programs: dict[str, Time] = {}

    def note(self, commits: int) -> str:
        """What a commit took of each program, and how many there would be if the daemon's own work took no time and no
        core were ever idle. What the kernel's threads do (writing back) is on nobody's account, and comes on top.

        Where the system does not say, or so little was used that its clock did not tick, the note says so.
        """
        parts = [
            f"{name} {_us(time.total_s, commits)} ({_us(time.kernel_s, commits)} kernel)"
            for name, time in sorted(self.programs.items(), key=lambda one: -one[1].total_s)
        ]
        others_s = sum(
            time.kernel_s if name == "writing files" else time.total_s
            for name, time in self.programs.items()
            if name not in DAEMON
        )
        if not others_s:
            return "processor time by program is not known"
        cores = len(os.sched_getaffinity(0))
        return (
            f"processor time, µs: {', '.join(parts)}; servers and the kernel's part of writing files alone would keep "
            f"{cores} cores busy at {cores * commits / others_s:,.0f} a second"
        )


@contextmanager
def processor_time() -> Iterator[Used]:
    """What this process's servers and daemons use within; known when it has ended."""
    before, used = _times(), Used()
    yield used
    for name, time in _times().items():
        was = before.get(name, Time())
        used.programs[name] = Time(time.total_s - was.total_s, time.kernel_s - was.kernel_s)


def _times() -> dict[str, Time]:
    """Of all that this process has started, and of what they have."""
    parents, found = {}, {}
    for folder in PROCESSES.iterdir() if PROCESSES.is_dir() else ():
        if not folder.name.isdigit():
            continue
        try:
            stat, command = (folder / "stat").read_text(), (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        fields = stat.rpartition(")")[2].split()
        parents[int(folder.name)] = int(fields[1])
        user_s, kernel_s = (int(ticks) / TICKS_A_SECOND for ticks in fields[11:13])
        found[int(folder.name)] = command.replace("\0", " "), Time(user_s + kernel_s, kernel_s)
    times: defaultdict[str, Time] = defaultdict(Time)
    for process, (command, time) in found.items():
        name = next((name for part, name in PROGRAMS.items() if part in command), None)
        if name is not None and _is_ours(process, parents):
            times[name].total_s += time.total_s
            times[name].kernel_s += time.kernel_s
    return times


def _is_ours(process: int, parents: dict[int, int]) -> bool:
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()


def _us(seconds: float, commits: int) -> str:
    return f"{seconds / commits * 1e6:,.0f}"
