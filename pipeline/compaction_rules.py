"""Which data files are worth rewriting: the thresholds of compaction, from the table's properties or as asked.

Names and defaults are those of Iceberg's rewrite of data files. A table sets one with ``firn.compaction.<name>``, for
instance ``firn.compaction.min-input-files``; the target size is ``write.target-file-size-bytes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput, InvalidMetadata
from firn.model.table_properties import TARGET_FILE_SIZE_BYTES, IntProperty

PREFIX: Final = "firn.compaction."

MIN_SIZE_RATIO: Final = 0.75
"""Least size of a good file, in target sizes."""

MAX_SIZE_RATIO: Final = 1.8
"""Largest size of a good file, in target sizes."""

MIN_INPUT_FILES: Final = IntProperty(f"{PREFIX}min-input-files", 5, 1)
DELETE_FILE_THRESHOLD: Final = IntProperty(f"{PREFIX}delete-file-threshold", 2**31 - 1, 1, 2**31 - 1)
DELETE_RATIO_THRESHOLD: Final = f"{PREFIX}delete-ratio-threshold"
MAX_FILE_GROUP_SIZE_BYTES: Final = IntProperty(f"{PREFIX}max-file-group-size-bytes", 100 * 1024**3, 1)
MAX_FILE_GROUP_INPUT_FILES: Final = IntProperty(f"{PREFIX}max-file-group-input-files", 10_000, 1, 50_000)
DELETE_RATIO_DEFAULT: Final = 0.3


class CompactionRules(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Sizes are bytes of data files.

    A file is a candidate if it is smaller than `min_file_size_bytes` or larger than `max_file_size_bytes`, if at least
    `delete_file_threshold` delete files apply to it, if deletes that name it take at least `delete_ratio_threshold` of
    its rows, or if it is of an old spec (with `rewrite_old_specs`). Candidates of one partition make groups of at most
    `max_file_group_size_bytes` and `max_file_group_input_files`; a group is rewritten if it has `min_input_files`, or
    makes at least one file of `target_file_size_bytes`, or has a file with too many deletes or of an old spec.
    `rewrite_all` rewrites every file. Raises InvalidInput for thresholds that contradict each other.
    """

    target_file_size_bytes: int = TARGET_FILE_SIZE_BYTES.default
    min_file_size_bytes: int = int(TARGET_FILE_SIZE_BYTES.default * MIN_SIZE_RATIO)
    max_file_size_bytes: int = int(TARGET_FILE_SIZE_BYTES.default * MAX_SIZE_RATIO)
    min_input_files: int = MIN_INPUT_FILES.default
    delete_file_threshold: int = DELETE_FILE_THRESHOLD.default
    delete_ratio_threshold: float = DELETE_RATIO_DEFAULT
    max_file_group_size_bytes: int = MAX_FILE_GROUP_SIZE_BYTES.default
    max_file_group_input_files: int = MAX_FILE_GROUP_INPUT_FILES.default
    rewrite_old_specs: bool = True
    rewrite_all: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.min_file_size_bytes < self.target_file_size_bytes < self.max_file_size_bytes:
            raise InvalidInput(
                f"file sizes must rise from min ({self.min_file_size_bytes}) over target "
                f"({self.target_file_size_bytes}) to max ({self.max_file_size_bytes}), or new files would need "
                "compaction again",
                where="compaction",
            )
        if not 0 < self.delete_ratio_threshold <= 1:
            raise InvalidInput(f"must be over 0 and at most 1, not {self.delete_ratio_threshold}",
                               where="delete-ratio-threshold")  # fmt: skip
        for name in ("min_input_files", "delete_file_threshold", "max_file_group_size_bytes",
                     "max_file_group_input_files"):  # fmt: skip
            if getattr(self, name) < 1:
                raise InvalidInput(f"must be at least 1, not {getattr(self, name)}", where=name.replace("_", "-"))

    @property
    def write_max_bytes(self) -> int:
        """Size at which a new file is closed: over the target, so that rows a little over it make no tiny second."""
        return self.target_file_size_bytes + (self.max_file_size_bytes - self.target_file_size_bytes) // 2

    def output_files(self, bytes_before: int) -> int:
        """How many files to make of so many bytes.

        A remainder too small for a file of its own is spread over the others, as long as that makes them no more than
        a tenth larger than the target.
        """
        target = self.target_file_size_bytes
        whole, rest = divmod(bytes_before, target)
        if whole == 0:
            return 1
        spread = bytes_before / whole < min(1.1 * target, self.write_max_bytes)
        return whole + int(rest > 0 and (rest > self.min_file_size_bytes or not spread))


def rules_of(properties: Mapping[str, str], **asked: Any) -> CompactionRules:
    """The rules of a table, `asked` ones (fields of `CompactionRules`; None is not asked) before its own.

    Sizes that nobody has set follow from the target. Raises InvalidMetadata for a property that cannot be read,
    InvalidInput for rules that contradict each other.
    """
    chosen = {name: value for name, value in asked.items() if value is not None}
    target = chosen.setdefault("target_file_size_bytes", TARGET_FILE_SIZE_BYTES.of(properties))
    found: dict[str, Any] = {
        "min_file_size_bytes": _size("min-file-size-bytes", int(target * MIN_SIZE_RATIO)).of(properties),
        "max_file_size_bytes": _size("max-file-size-bytes", max(target + 1, int(target * MAX_SIZE_RATIO))).of(
            properties
        ),
        "min_input_files": MIN_INPUT_FILES.of(properties),
        "delete_file_threshold": DELETE_FILE_THRESHOLD.of(properties),
        "delete_ratio_threshold": _ratio(properties),
        "max_file_group_size_bytes": MAX_FILE_GROUP_SIZE_BYTES.of(properties),
        "max_file_group_input_files": MAX_FILE_GROUP_INPUT_FILES.of(properties),
    }
    return CompactionRules(**{**found, **chosen})


def _size(name: str, default: int) -> IntProperty:
    return IntProperty(f"{PREFIX}{name}", default)


def _ratio(properties: Mapping[str, str]) -> float:
    text = properties.get(DELETE_RATIO_THRESHOLD)
    if text is None:
        return DELETE_RATIO_DEFAULT
    try:
        return float(text)
    except ValueError:
        raise InvalidMetadata(
            f"must be a number, not {text[:40]!r}", where=f"properties.{DELETE_RATIO_THRESHOLD}"
        ) from None
