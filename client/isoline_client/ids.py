"""The ids that the client makes: request ids, and nothing else."""

import secrets

from isoline_client.limits import REQUEST_ID_BYTES


def new_request_id() -> str:
    """Make a request id: random, one for each call that changes something, the same on every try of it."""
    return secrets.token_urlsafe(REQUEST_ID_BYTES)
