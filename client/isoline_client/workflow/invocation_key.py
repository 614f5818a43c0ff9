"""The content-addressed key of a request to a model: OpenWOP's semantic request digest, recipe v2 (RFC 0150 C).

Only what the model's answer depends on takes part: no run, tenant, trace, time or retry. Two tenants compute the same key, so whatever is
stored under it is stored by tenant.
"""

from collections.abc import Mapping
from typing import Final

from isoline_client.workflow.errors import NodeError
from isoline_client.workflow.host import LlmRequest
from isoline_client.workflow.values import Json, canonical, digest_hex

RECIPE: Final = "openwop-semantic-request-v2"


def invocation_key(request: LlmRequest) -> str:
    """Lower-case hexadecimal SHA-256 of the canonical request."""
    return digest_hex(document(request))


def canonical_request(request: LlmRequest) -> bytes:
    """The bytes that the key is the digest of."""
    return canonical(document(request))


def document(request: LlmRequest) -> dict[str, Json]:
    """The request as the recipe writes it down: what is absent is left out, never null."""
    if not (request.provider.isascii() and request.provider == request.provider.lower() and request.provider):
        raise NodeError(
            "node_config_invalid", f"provider {request.provider!r} must be lower-case ASCII", retryable=False
        )
    tools = sorted(request.tools, key=_name_of)
    optional: dict[str, Json] = {
        "tools": tools or None,
        "temperature": request.temperature,
        "topP": request.top_p,
        "topK": request.top_k,
        "maxOutputTokens": request.max_output_tokens,
        "seed": request.seed,
        "stop": None if request.stop is None else list(request.stop),
        "responseFormat": request.response_format,
        "safetySettings": request.safety_settings,
    }
    content = {
        "messages": list(request.messages),
        **{name: each for name, each in optional.items() if each is not None},
    }
    whole: dict[str, Json] = {
        "recipe": RECIPE,
        "provider": request.provider,
        "model": request.model,
        "request": content,
    }
    options = _namespaced(request.provider, request.provider_options)
    return {**whole, "providerOptions": options} if options else whole


def _name_of(tool: Mapping[str, Json]) -> bytes:
    """UTF-16 code units, the order of the recipe; no language's collation."""
    return str(tool.get("name", "")).encode("utf-16-be", "surrogatepass")


def _namespaced(provider: str, options: Mapping[str, Json]) -> dict[str, Json]:
    return {name if name.startswith("vendor.") else f"vendor.{provider}.{name}": each for name, each in options.items()}
