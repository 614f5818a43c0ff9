"""The floor: what a log over gRPC and PostgreSQL costs in Python when it has no features at all."""
