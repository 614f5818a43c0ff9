"""Streams of pages that survive the loss of a server: what was proven so far is where the next try goes on.

Every page goes through one ``PrefixVerifier``, so there is no gap, no duplicate and no change of history across tries, servers or regions.
"""

from collections.abc import AsyncGenerator

from isoline.v1 import log_service_pb2 as log_pb
from isoline_client import wire
from isoline_client.channel import Connection
from isoline_client.errors import IsolineError, Unavailable
from isoline_client.retry import Attempts
from isoline_client.values import Page
from isoline_client.verify import PrefixVerifier


async def read_pages(
    connection: Connection, request: log_pb.ReadEventsRequest, verifier: PrefixVerifier
) -> AsyncGenerator[Page, None]:
    """Read a range. Each page may take as long as one call."""
    attempts = Attempts(connection.timeout_s)
    while True:
        _go_on_from(request, verifier)
        stream = connection.open(wire.READ_EVENTS, request)
        try:
            while (answer := await stream.read(connection.timeout_s)) is not None:
                attempts.restart(connection.timeout_s)
                yield wire.page(answer, verifier)
            verifier.finish()
            return
        except IsolineError as error:
            await connection.recover(stream.endpoint, attempts, error)
        finally:
            stream.cancel()


async def tail_pages(
    connection: Connection,
    request: log_pb.TailEventsRequest,
    verifier: PrefixVerifier,
    *,
    silence_s: float,
    patience_s: float,
) -> AsyncGenerator[Page, None]:
    """Read, then go on live. The first answer may take as long as one call; after it, servers may be out of reach for ``patience_s``.

    A stream that ends without having been asked to is one more lost server. A preferred server that is back takes the tail over.
    """
    attempts = Attempts(connection.timeout_s)
    while True:
        _go_on_from(request, verifier)
        stream = connection.open(wire.TAIL_EVENTS, request)
        try:
            while (answer := await stream.read(silence_s)) is not None:
                attempts.restart(patience_s)
                if answer.HasField("page"):
                    yield wire.page(answer.page, verifier)
                if stream.outranked():
                    break
            else:
                if request.stop_at_terminal and await _ended(connection, request.run_id, verifier.next_seq):
                    return
                raise Unavailable(message=f"{stream.endpoint.address} ended the tail")
        except IsolineError as error:
            await connection.recover(stream.endpoint, attempts, error)
        finally:
            stream.cancel()


def _go_on_from(request: log_pb.ReadEventsRequest | log_pb.TailEventsRequest, verifier: PrefixVerifier) -> None:
    request.from_seq = verifier.next_seq
    if verifier.anchor is not None:
        request.known.CopyFrom(wire.position_message(verifier.anchor))


async def _ended(connection: Connection, run_id: str, next_seq: int) -> bool:
    """Whether the run's terminal event stands before ``next_seq``."""
    answer = await connection.call(wire.GET_RUN, log_pb.GetRunRequest(run_id=run_id))
    return answer.run.HasField("terminal_seq") and answer.run.terminal_seq < next_seq
