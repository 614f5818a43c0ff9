"""Failover by Patroni: in each region an etcd, a Patroni and the PostgreSQL under it, and nobody else who decides.

What belongs here: finding the programs, what they are told, how they are run and ended, what their logs say about a failover. What does not:
any rule about who may be promoted, for those are Patroni's; and everything that is the same when an operator promotes.
"""

from isoline_drill.patroni.databases import PatroniDatabases
from isoline_drill.patroni.installed import NotInstalled, Programs, find_programs

__all__ = ["NotInstalled", "PatroniDatabases", "Programs", "find_programs"]
