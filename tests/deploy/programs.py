"""Programs that tests of the deployment need and no wheel brings."""

from __future__ import annotations

import os
import shutil

import pytest


def needed(program: str) -> str:
    """Where a program is; CI must have it."""
    found = shutil.which(program, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    if found is None:
        if "CI" in os.environ:
            pytest.fail(f"CI must try this: install {program}")
        pytest.skip(f"{program} is not installed")
    return found
