import math

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from isoline_server.domain.canonical import canonical, digest_of
from isoline_server.domain.errors import Damaged

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(1e-8, 1e-2)
    | st.floats(1e14, 1e23)
    | st.integers(-100, 100).map(float)
    | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5), max_leaves=20
)


@settings(deadline=None)
@given(VALUES)
def test_g4_the_fast_spelling_is_the_spelling_of_rfc_8785(value):
    assert canonical(value) == rfc8785.dumps(value)


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=8))
def test_g4_the_order_of_keys_does_not_matter(value):
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        ({"b": 1, "a": [True, None, "é"]}, '{"a":[true,null,"é"],"b":1}'),
        (1.0, "1"),
        (-0.0, "0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e16 + 2, "10000000000000002"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (5e-5, "0.00005"),
        (1e-7, "1e-7"),
        ('\x00\x1f"\\/\n\x7f\u2028', '"\\u0000\\u001f\\"\\\\/\\n\x7f\u2028"'),
        ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'),
        ([], "[]"),
    ],
)
def test_g4_known_values_have_their_known_spelling(value, spelling):
    assert canonical(value) == spelling.encode()


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53, {"deep": [-(2**53)]}, "\ud800", {"\udfff": 1}, {1: 2}])
def test_a_value_without_a_canonical_form_is_damage(value):
    with pytest.raises(Damaged):
        canonical(value)


def test_a_value_nested_too_deep_to_write_is_damage():
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(Damaged):
        canonical(value)


def test_the_digest_is_the_one_that_a_shell_computes():
    assert digest_of(b"{}").hex() == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
