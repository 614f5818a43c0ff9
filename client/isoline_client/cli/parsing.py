"""Texts of the command line to values, and what is said about errors in more than one command. Pure."""

import json
from pathlib import Path

from isoline_client.cli.failures import CommandError
from isoline_client.errors import IsolineError, OutcomeUnknown
from isoline_client.values import ForkMode, Freshness
from isoline_client.verify import Position


def freshness_of(text: str) -> Freshness:
    match text:
        case "latest" | "local":
            return text
        case _:
            raise CommandError(f"--freshness: must be latest or local, not {text!r}")


def mode_of(text: str) -> ForkMode:
    match text:
        case "branch" | "replay":
            return text
        case _:
            raise CommandError(f"--mode: must be branch or replay, not {text!r}")


def position_of(text: str | None, option: str) -> Position | None:
    """Read ``SEQ:DIGEST``, as ``read`` prints it at its end."""
    if text is None:
        return None
    seq, _, digest = text.partition(":")
    try:
        position = Position(int(seq), digest_of(digest, option))
    except ValueError:
        raise CommandError(f"{option}: must be SEQ:DIGEST, not {text!r}") from None
    return position


def digest_of(text: str, option: str) -> bytes:
    """Read a digest of 64 hexadecimal digits."""
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise CommandError(f"{option}: a digest has 64 hexadecimal digits, not {text!r}")
    return digest


def overlay_of(text: str | None) -> bytes | None:
    """Read ``JSON`` or ``@FILE``; what is in it is sent as it stands."""
    if text is None:
        return None
    try:
        data = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        value = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(f"--overlay: {error}") from error
    if not isinstance(value, dict):
        raise CommandError("--overlay: must be a JSON object")
    return data


def note_request_id(error: IsolineError) -> IsolineError:
    """The same error; when it leaves open what happened, with a word on how to learn it."""
    if isinstance(error, OutcomeUnknown) and error.request_id:
        error.add_note(f"to learn what happened, give the same command again with --request-id {error.request_id}")
    return error
