"""docs/configuration.md lists every setting; ``python -m tests.unit.coordinator.test_configuration_page`` writes it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.coordinator.config import Settings

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
HEAD = """\
# Configuration

`firn.toml` (or the file that `--config` or `FIRN_CONFIG` names) has a section for each of these. In the environment,
`FIRN_<SECTION>_<NAME>` goes before it, and `FIRN_<SECTION>_<NAME>_FILE` names a file that holds the value;
`FIRN_ZOOKEEPER` is short for `FIRN_ZOOKEEPER_HOSTS`, `FIRN_WAREHOUSE` for `FIRN_WAREHOUSE_LOCATION`. `firn config show`
prints what is in force, `firn config check` what is wrong and where. Generated from the code, compared by a test.

**The root in ZooKeeper** is the path behind the servers: `FIRN_ZOOKEEPER=zk-1:2181,zk-2:2181/lake` keeps everything
below `/lake`. Without a path it is `zookeeper.root`, which is `/firn` unless set. A path and another `zookeeper.root`
together are refused. The same text means the same everywhere: settings, `Client(zookeeper=…)`,
`spark.firn.zookeeper`, and the line that `firn serve --embedded` prints. `zk-1:2181/` is the top of the tree.

```toml
[redis]
url = "rediss://firn-daemon@redis:6380/0"

[zookeeper]
hosts = "zookeeper-1:2181,zookeeper-2:2181,zookeeper-3:2181"

[warehouse]
location = "s3://bucket/warehouse"
```
"""


def about(kind: type) -> dict[str, str]:
    """The docstrings below a struct's fields, by field."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for one, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(following, ast.Expr):
            assert isinstance(following.value, ast.Constant)
            found[one.target.id] = " ".join(str(following.value.value).split())
    return found


def shown(value: Any) -> str:
    """A default as TOML has it."""
    match value:
        case None:
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case tuple() | dict() | list():
            return "`{}`" if isinstance(value, dict) else f"`{list(value)}`"
        case _:
            return f"`{value}`"


def section(name: str, kind: type[msgspec.Struct]) -> str:
    texts = about(kind)
    doc = inspect.getdoc(kind) or ""
    lines = [f"\n## [{name}]\n", doc, "", "| setting | default | what |", "|---|---|---|"]
    for field in msgspec.structs.fields(kind):
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        lines.append(f"| `{field.encode_name}` | {shown(default)} | {texts.get(field.name, '')} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """What docs/configuration.md has to say."""
    return HEAD + "".join(section(field.encode_name, field.type) for field in msgspec.structs.fields(Settings))


def test_the_page_lists_every_setting() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("kind", [field.type for field in msgspec.structs.fields(Settings)])
def test_every_setting_says_what_it_is(kind: type[msgspec.Struct]) -> None:
    """Below its name: a limit is met by people who have never heard of it."""
    assert {field.name for field in msgspec.structs.fields(kind)} - set(about(kind)) == set()


if __name__ == "__main__":
    PAGE.write_text(page())
