"""HTTP requests: httpx, requests, aiohttp and the standard library."""

from typing import Final

from isoline_client.guard.seams.seam import REGISTRY, Point, Seam, always

HTTP: Final = REGISTRY.add(
    Seam(
        name="http.request",
        kind="http",
        module=__name__,
        unseen="libcurl (pycurl, curl_cffi) and other clients in C",
        points=(
            Point(module="httpx", path="HTTPTransport.handle_request"),
            Point(module="httpx", path="AsyncHTTPTransport.handle_async_request"),
            Point(module="requests.adapters", path="HTTPAdapter.send"),
            Point(module="aiohttp.client", path="ClientSession._request"),
            Point(module="http.client", path="HTTPConnection.request"),
        ),
        events={"http.client.connect": always, "http.client.send": always, "urllib.Request": always},
    )
)
