"""Writing a small file whole or not at all, readable for its owner only. It may hold the password of the database."""

import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Give ``path`` a new content at one instant: who reads it sees the old text or the new one."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
