"""Failover drills on one machine: three regions over an emulated WAN, load from all of them, a fault, and a checker of what came of it.

This package stands above the server and the client and imports both; neither imports it. What belongs here: the emulated WAN (``wan``), the
databases of the regions and what an operator or Patroni does with them, the load, its history, the checker, the scenarios and their reports.
What does not: anything that a deployment needs to work, for nothing outside a drill may depend on it.
"""
