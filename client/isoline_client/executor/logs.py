"""How an executor says what it does: one line for each step of a run, for people or for machines. Nothing else logs to stderr."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Lines(logging.Formatter):
    """``2026-12-01T09:30:00.123Z info claimed run=… epoch=3``, or the same as a JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        level, what = record.levelname.lower(), record.getMessage()
        facts = {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        if self._as_json:
            return json.dumps({"at": at, "level": level, "event": what, **facts}, default=str)
        pairs = "".join(f" {name}={_spell(value)}" for name, value in facts.items() if name != "traceback")
        return f"{at} {level} {what}{pairs}" + (f"\n{facts['traceback']}" if "traceback" in facts else "")


def log_to_stderr(*, as_json: bool) -> None:
    """Send the executor's log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(as_json=as_json))
    logger = logging.getLogger("isoline_client")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _spell(value: object) -> str:
    text = str(value)
    return text if text and not any(each.isspace() for each in text) else json.dumps(text, ensure_ascii=False)
