"""Exit 0 when the Isoline server at HOST:PORT says that it serves, 1 when it drains or does not answer: the health check of the image.

It asks the server about itself, by the gRPC health protocol. Whether its database answers is `isoline status`'s business: a server is not made
better by being restarted when its database is away.
"""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

TIMEOUT_S = 2.0


def main(address: str) -> int:
    """The exit code; what was answered goes to stdout, which a container's health log keeps."""
    with grpc.insecure_channel(address) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            sys.stdout.write(f"{error.code().name}\n")
            return 1
    sys.stdout.write(f"{health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}\n")
    return 0 if answer.status == health_pb2.HealthCheckResponse.SERVING else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
