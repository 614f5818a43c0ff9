"""Every statement that a maker of the store makes: for tests that read them all."""

import inspect
from itertools import product


def cases_of(maker, region="euw1"):
    """Pairs of a name and a text: one, or one for each way to set the maker's switches."""
    parameters = inspect.signature(maker).parameters.values()
    switches = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    places = [region] * (len(parameters) - len(switches))
    for chosen in product((False, True), repeat=len(switches)):
        named = dict(zip(switches, chosen, strict=True))
        yield "".join(f" {name}={on}" for name, on in named.items()), maker(*places, **named)
