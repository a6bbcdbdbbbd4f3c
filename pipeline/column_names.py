"""Names of a table's columns as Spark takes them: in quotes, whatever characters are in them."""

from __future__ import annotations

import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column


def quoted(*parts: str) -> str:
    """The name of a column, or the way to it: an alias or structs first."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def named_column(*parts: str) -> Column:
    """The column that is called so; in a struct, or of one side of a join, with what leads to it before it."""
    return F.col(quoted(*parts))
