from typing import Any

from firn.model.datafile import FileFormat

INTERFACE: int

def read(
    payload: bytes, start: int, /
) -> tuple[int, bytes, list[tuple[str, FileFormat, int, tuple[Any, ...], int, int, bytes]]] | None: ...
def fits(encoded: bytes, forms: bytes, /) -> bool: ...
