"""A whole Isoline on one machine: ``isoline up`` and ``isoline down``. A private PostgreSQL with standbys, and a server process for each region.

Belongs here: which processes there are, where they listen, keeping them alive, ending them in order, and telling others where they are
(``cluster.json``). Not here: how PostgreSQL is run (``embedded``), and what a region's server does (it is ``isoline serve``, unchanged).
"""

from isoline_server.local_cluster.errors import ClusterError
from isoline_server.local_cluster.leash import end_with_parent
from isoline_server.local_cluster.record import ClusterRecord
from isoline_server.local_cluster.stopping import stop_cluster
from isoline_server.local_cluster.supervisor import Order, run_cluster

__all__ = ["ClusterError", "ClusterRecord", "Order", "end_with_parent", "run_cluster", "stop_cluster"]
