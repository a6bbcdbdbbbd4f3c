"""What fsck says: the invariants by name, and each breach of one as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

InvariantName = Literal[
    "exactly-once", "linear-history", "content-agrees", "no-doubles", "nothing-missing", "all-or-nothing"
]

INVARIANTS: Final[Mapping[InvariantName, str]] = {
    "exactly-once": "every committed intent is in the table exactly once, and is decided once",
    "linear-history": "every version follows the one before it, and no counter or time ever falls",
    "content-agrees": "every file that a snapshot names is what its reference says it is",
    "no-doubles": "no file is live twice, no manifest is listed twice, no row id is given twice",
    "nothing-missing": "every file that the table reaches is there",
    "all-or-nothing": "a transaction or rename is in the journals of all its tables, or in none",
}
"""What must hold, by name."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A breach of an invariant: where, and what is wrong there."""

    invariant: InvariantName
    where: str
    message: str
