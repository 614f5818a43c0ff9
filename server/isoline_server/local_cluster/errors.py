"""What keeps a local cluster from running. PostgreSQL's own troubles are ``embedded.EmbeddedPostgresError``."""


class ClusterError(Exception):
    """The cluster cannot do what was asked; the message says what to do about it."""
