"""The key of a request to a model: OpenWOP's golden vectors, and what must not take part."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from isoline_client.workflow import LlmRequest, NodeError, invocation_key
from isoline_client.workflow.invocation_key import RECIPE, canonical_request

FILE = Path(__file__).parents[1] / "golden" / "openwop" / "semantic-request-digest-v2.json"
VECTORS = json.loads(FILE.read_text())
NAMES = {
    "provider": "provider",
    "model": "model",
    "messages": "messages",
    "tools": "tools",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_output_tokens",
    "seed": "seed",
    "stop": "stop",
    "responseFormat": "response_format",
    "safetySettings": "safety_settings",
    "providerOptions": "provider_options",
}
HELLO = LlmRequest(provider="acme", model="m", messages=[{"role": "user", "content": "hello"}])


def test_there_are_thirteen_vectors_of_our_recipe():
    assert (len(VECTORS["vectors"]), VECTORS["recipe"]) == (13, RECIPE)


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["id"])
def test_golden_vector(vector):
    request = LlmRequest(**{NAMES[name]: value for name, value in vector["input"].items()})

    assert canonical_request(request).decode() == vector["canonical"]
    assert invocation_key(request) == vector["digest"]


@pytest.mark.parametrize(
    "member",
    [
        {"temperature": 0.5},
        {"top_p": 0.5},
        {"top_k": 3},
        {"max_output_tokens": 3},
        {"seed": 0},
        {"stop": []},
        {"response_format": {}},
        {"safety_settings": {}},
        {"tools": [{"name": "x"}]},
        {"provider_options": {"effort": 1}},
        {"model": "M"},
    ],
    ids=lambda member: next(iter(member)),
)
def test_every_member_takes_part(member):
    assert invocation_key(replace(HELLO, **member)) != invocation_key(HELLO)


def test_an_empty_list_of_tools_is_left_out():
    assert invocation_key(replace(HELLO, tools=[])) == invocation_key(HELLO)


def test_provider_options_are_put_under_their_provider_once():
    plain = replace(HELLO, provider_options={"effort": "high"})
    named = replace(HELLO, provider_options={"vendor.acme.effort": "high"})

    assert invocation_key(plain) == invocation_key(named)
    assert b'"providerOptions":{"vendor.acme.effort":"high"}' in canonical_request(plain)


def test_names_beyond_the_basic_plane_are_ordered_by_code_units():
    """U+1F600 begins with the unit D83D, which is before U+FF5E; by code points it would be behind."""
    names = ["～", "😀"]
    request = replace(HELLO, tools=[{"name": name} for name in names])

    found = json.loads(canonical_request(request))["request"]["tools"]

    assert [tool["name"] for tool in found] == ["😀", "～"]


@pytest.mark.parametrize("provider", ["", "Acme", "äcme"])
def test_a_provider_is_lower_case_ascii(provider):
    with pytest.raises(NodeError, match="lower-case ASCII"):
        invocation_key(replace(HELLO, provider=provider))
