"""The dashboards that Grafana is given, as far as the pages draw them: read from the same JSON files.

``grafana/generate.py`` writes them; the folder beside this module leads there, so that an installed firn has them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

FOLDER: Final = Path(__file__).parent / "dashboards"

NAMES: Final = ("fleet", "table", "conflicts", "capacity")
"""In the order in which somebody on call wants them."""


class Target(msgspec.Struct, frozen=True, rename="camel"):
    """A query of a panel: PromQL, and what its series are called (``{{label}}`` stands for a label's value)."""

    expr: str
    legend_format: str = ""


class Step(msgspec.Struct, frozen=True):
    """From `value` on (None: from the beginning) a number is `color`."""

    color: str
    value: float | None = None


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One panel. `kind` is Grafana's name of it, `unit` too; `width` is in columns of 24.

    `columns` are a table's: labels (``Value``: the number) and what they are called, in their order.
    """

    title: str
    kind: str
    about: str = ""
    unit: str = "short"
    width: int = 8
    targets: tuple[Target, ...] = ()
    stacked: bool = False
    steps: tuple[Step, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()


class Row(msgspec.Struct, frozen=True):
    """Panels below a heading."""

    title: str
    panels: tuple[Panel, ...]


class Variable(msgspec.Struct, frozen=True):
    """What a reader chooses: `metric` has series with the label `name`, whose values there are to choose from."""

    name: str
    label: str
    metric: str


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard: the question that it answers, and its rows."""

    name: str
    title: str
    question: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()


def read_dashboards(folder: Path = FOLDER) -> Mapping[str, Dashboard]:
    """All of them, by name."""
    return {name: decode_dashboard(name, (folder / f"{name}.json").read_bytes()) for name in NAMES}


def decode_dashboard(name: str, data: bytes) -> Dashboard:
    """A dashboard out of Grafana's JSON."""
    stored: dict[str, Any] = msgspec.json.decode(data)
    rows: list[tuple[str, list[Panel]]] = []
    for panel in stored["panels"]:
        if panel["type"] == "row":
            rows.append((panel["title"], []))
        else:
            rows[-1][1].append(_panel(panel))
    return Dashboard(
        name=name,
        title=stored["title"].removeprefix("firn / "),
        question=stored["description"],
        rows=tuple(Row(title, tuple(panels)) for title, panels in rows),
        variables=tuple(_variable(stored_one) for stored_one in stored["templating"].get("list", ())),
    )


def _panel(stored: Mapping[str, Any]) -> Panel:
    defaults = stored.get("fieldConfig", {}).get("defaults", {})
    stacking = defaults.get("custom", {}).get("stacking", {})
    return Panel(
        title=stored["title"],
        kind=stored["type"],
        about=stored.get("description", ""),
        unit=defaults.get("unit", "short"),
        width=stored["gridPos"]["w"],
        targets=msgspec.convert(stored["targets"], tuple[Target, ...]),
        stacked=stacking.get("mode") == "normal",
        columns=_columns(stored.get("transformations", ())),
        steps=msgspec.convert(defaults.get("thresholds", {}).get("steps", ()), tuple[Step, ...]),
    )


def _columns(transformations: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    for transformation in transformations:
        if transformation["id"] == "organize":
            order, titles = transformation["options"]["indexByName"], transformation["options"]["renameByName"]
            return tuple((name, titles.get(name, name)) for name in sorted(order, key=order.__getitem__))
    return ()


def _variable(stored: Mapping[str, Any]) -> Variable:
    metric, _, label = stored["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
    assert label == stored["name"], f"variable {stored['name']}: its query is not label_values(metric, label)"
    return Variable(name=stored["name"], label=stored["label"], metric=metric)
