"""The SQL files that an operator runs, statement by statement."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "deploy" / "cockroach"


def statements(name: str) -> list[str]:
    """The statements of one file, without its comments."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [part.strip() for part in re.sub(r"--.*", "", text).split(";") if part.strip()]
