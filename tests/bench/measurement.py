"""What a row measured, as a line of the table and as a line of JSON."""

from __future__ import annotations

import math
import statistics
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
from rich.table import Table

LOWER_IS_BETTER: Final = frozenset({"ms", "s", "bytes", "MB"})
PROJECT: Final = Path(__file__).resolve().parents[2]


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number beside its peer's, both measured in this run.

    `ratio` is how often better than the peer firn is, whichever way `unit` runs. `target` is the least ratio wanted
    and `holds` whether it was reached without a failure; None where there is no target. `n` counts what was measured.
    """

    name: str
    value: float | None
    unit: str
    peer: float | None
    ratio: float | None
    target: float | None
    holds: bool | None
    n: int
    commit: str
    peer_name: str = ""
    note: str = ""
    error: str = ""


def measured(
    name: str, *, value: float, unit: str, peer: float, peer_name: str, target: float | None, n: int, note: str = "",
    failures: int = 0,
) -> Measurement:  # fmt: skip
    """The measurement of a row that ran to its end; with `failures` no target holds."""
    better = (peer, value) if unit in LOWER_IS_BETTER else (value, peer)
    ratio = better[0] / better[1]
    return Measurement(
        name=name, value=_rounded(value), unit=unit, peer=_rounded(peer), ratio=_rounded(ratio), target=target,
        holds=None if target is None else ratio >= target and failures == 0, n=n, commit=commit(),
        peer_name=peer_name, note=note if not failures else f"{failures} failures; {note}",
    )  # fmt: skip


def not_measured(name: str, error: str) -> Measurement:
    """The measurement of a row that broke off."""
    return Measurement(
        name=name, value=None, unit="", peer=None, ratio=None, target=None, holds=False, n=0, commit=commit(),
        error=error,
    )  # fmt: skip


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of `values` that at least `percent` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle of `values`."""
    return statistics.median(values)


@lru_cache
def commit() -> str:
    """The commit that is measured, as it was at first asking; with a plus when tracked files differ from it."""
    try:
        return _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def table_of(measurements: Sequence[Measurement]) -> Table:
    """What people read; `notes_of` says the rest."""
    table = Table(title="firn against its peers, in this run", title_justify="left")
    for heading in ("row", "firn", "peer", "ratio", "target", "holds", "n"):
        table.add_column(heading, justify="left" if heading in {"row", "holds"} else "right", no_wrap=True)
    for m in measurements:
        if m.error:
            table.add_row(m.name, "–", "–", "–", "–", "[red]failed", "0")
            continue
        holds = {None: "", True: "[green]yes", False: "[red]no"}[m.holds]
        target = "" if m.target is None else f"≥ {m.target:g} ×"
        table.add_row(
            m.name, f"{_shown(m.value)} {m.unit}", _shown(m.peer), f"{_shown(m.ratio)} ×", target, holds, str(m.n)
        )
    return table


def notes_of(measurements: Sequence[Measurement]) -> list[str]:
    """What each row was measured against, and what else was seen."""
    return [f"{m.name}: {m.error or f'against {m.peer_name}. {m.note}'}" for m in measurements]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
