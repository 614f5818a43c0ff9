"""Moments as the driver gives them, and as the service holds them: microseconds since the Unix epoch."""

from datetime import datetime


def microseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def microseconds_or_none(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds(moment)
