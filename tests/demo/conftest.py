"""A place for each test that is searched for left processes and files afterwards."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.processes import end_all, left_of, wait_until


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for data and temporary files. Whatever was started from it must be gone in the end, and have left nothing behind it."""
    with tempfile.TemporaryDirectory(prefix="isoline-test-demo-") as folder:
        yield Path(folder)
        end_all()
        wait_until(lambda: not left_of(Path(folder)))
