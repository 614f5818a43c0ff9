import shutil
import subprocess

import grpc
import pytest

from client.double import RUN_ID, Double
from isoline_client import Client, NewEvent, Tls, Unavailable

EVENT = NewEvent("node.completed", {"a": 1})


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A key and its self-signed certificate for ``isoline.test``."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    request = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    name = ["-subj", "/CN=isoline.test", "-addext", "subjectAltName=DNS:isoline.test"]
    subprocess.run([*request, "-keyout", key, "-out", cert, *name], check=True, capture_output=True)
    return key.read_bytes(), cert.read_bytes()


@pytest.fixture
async def secured(world, pair):
    credentials = grpc.ssl_server_credentials([pair], root_certificates=pair[1], require_client_auth=True)
    double = await Double(world, credentials=credentials).start()
    yield double
    await double.stop()


async def test_both_sides_prove_who_they_are(secured, pair):
    key, cert = pair
    tls = Tls(ca=cert, cert=cert, key=key, server_name="isoline.test")
    async with Client(secured.address, tls=tls) as client:
        assert (await client.run(RUN_ID).append(EVENT)).first_seq == 0


@pytest.mark.parametrize("mistake", ["no certificate of the client", "another name", "no tls at all"])
async def test_without_that_nothing_is_sent(secured, pair, mistake):
    key, cert = pair
    tls = {
        "no certificate of the client": Tls(ca=cert, server_name="isoline.test"),
        "another name": Tls(ca=cert, cert=cert, key=key, server_name="another.test"),
        "no tls at all": None,
    }[mistake]
    async with Client(secured.address, tls=tls) as client:
        with pytest.raises(Unavailable):
            await client.run(RUN_ID).info(timeout_s=0.5)
    assert not secured.seen
