"""Every bound and duration of the client, with its reason. Nothing else: no logic, no configuration.

The bounds of a request are the server's (``Client.capabilities`` announces them); they are re-stated here because what is too large is
refused before it is sent, and never tried again.
"""

from typing import Final

PAYLOAD_BYTES_MAX: Final = 1024 * 1024
"""Payload of one event."""

APPEND_EVENTS_MAX: Final = 1_000
"""Events of one append."""

APPEND_BYTES_MAX: Final = 4 * 1024 * 1024
"""Payload bytes of one append."""

APPEND_MANY_MAX: Final = 64
"""Appends of one call."""

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""One answer. Pages stay under 1 MiB and states under 8 MiB; the rest is room for servers with other limits."""

IMPORT_MESSAGE_BYTES: Final = 1024 * 1024
"""Documents of one message of an import; a document that is larger goes alone."""

IMPORT_MESSAGES_AHEAD: Final = 2
"""Messages of an import that may be taken before anybody is known to listen."""

REQUEST_ID_BYTES: Final = 18
"""Random bytes of a request id: 144 bits in 24 characters. The server asks for 80 bits, OpenWOP for 128."""

CALL_TIMEOUT_S: Final = 30.0
"""One call, every try and pause of it included."""

TRY_S_MIN: Final = 2.0
"""Less time than this is not kept back for another server."""

SERVER_ERROR_TRIES_MAX: Final = 4
"""Tries that end in an internal error of the server. It may be a passing one; if it is not, the caller should learn of it soon."""

PAUSE_FIRST_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0
"""Pauses between tries double from the first to the last, and each is drawn between its half and its whole."""

REST_S: Final = 5.0
"""A server that failed is left alone this long while another one answers."""

CONNECT_MS_MAX: Final = 3_000
"""One attempt to connect. TCP and TLS take three round trips: this is ten times as long across the widest ocean."""

RECONNECT_MS_MIN: Final = 100
RECONNECT_MS_MAX: Final = 1_000
"""Pause of gRPC between attempts to connect: a restarted server is found again within a second."""

KEEPALIVE_MS: Final = 30_000
KEEPALIVE_TIMEOUT_MS: Final = 10_000
"""A connection that carries nothing is pinged, and given up when the ping is not answered. The server allows a ping every 10 s."""

TAIL_SILENCE_S: Final = 15.0
"""A tail that hears neither an event nor a heartbeat this long is opened anew."""

TAIL_PATIENCE_S: Final = 300.0
"""A tail that reaches no server this long gives up. Longer than a rolling restart or a region's failover."""

WRITER_LINGER_MS: Final = 5.0
"""An event waits this long for others before its batch is sent: less than one commit across regions, more than a burst's gaps."""

WRITER_EVENTS_MAX: Final = 10_000
WRITER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Events, and payload bytes, that a writer holds unanswered: four full batches. Beyond it ``write`` waits."""

WORKER_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""One message between an executor and its replay worker: inputs or outputs of a node, as JSON. As large as the largest answer of a server."""

WORKER_OPEN_FILES_MAX: Final = 256
WORKER_FILE_BYTES_MAX: Final = 256 * 1024 * 1024
"""What a replay worker may have open, and the size of one file in its scratch folder: room for a library that spills, not for a leak."""

WORKER_START_TIMEOUT_S: Final = 30.0
"""From the start of a replay worker to its word that it is shut in. It takes half a second; a loaded machine may take long."""

WORKER_STOP_TIMEOUT_S: Final = 2.0
"""A replay worker that was told to end is killed after this. It holds nothing that would need to be saved."""

WORKER_CANCEL_TIMEOUT_S: Final = 2.0
"""A replay worker that has not let go of a cancelled node by then is killed: the node keeps it from hearing anything."""

WORKER_LAST_WORDS_BYTES: Final = 4 * 1024
"""What is kept of a replay worker's standard error, to say why it died."""

PROBE_TIMEOUT_S: Final = 30.0
"""One process that is shut in to see whether this host allows it."""
