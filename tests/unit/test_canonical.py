"""Canonical JSON at its limits, its numbers by ECMAScript's own rule from the digits that ``decimal`` reads."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmlang.base import canonical
from tmlang.base.canonical import MAX_DEPTH, NotCanonical, dumps, loads


def ecmascript(x: float) -> str:
    """Number::toString (ECMA-262, section 6.1.6.1.20) with the shortest digits, which Python's ``repr`` has too."""
    if x == 0:
        return "0"
    _, digits, exponent = Decimal(repr(abs(x))).normalize().as_tuple()
    s, k = "".join(map(str, digits)), len(digits)
    n = exponent + k
    if k <= n <= 21:
        text = s + "0" * (n - k)
    elif 0 < n <= 21:
        text = f"{s[:n]}.{s[n:]}"
    elif -6 < n <= 0:
        text = f"0.{'0' * -n}{s}"
    else:
        text = (s if k == 1 else f"{s[0]}.{s[1:]}") + f"e{'+' if n > 0 else '-'}{abs(n - 1)}"
    return ("-" if x < 0 else "") + text


SIZES = [float(f"{m}e{e}") for m in ("1", "1.5", "123456789", "-9.75") for e in range(-30, 31)]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(SIZES))
def test_numbers_are_ecmascripts(x):
    assert dumps(x).decode() == ecmascript(x)
    assert loads(dumps(x)) == x


@pytest.mark.parametrize("x", SIZES)
def test_numbers_of_every_size_are_ecmascripts(x):
    assert dumps(x).decode() == ecmascript(x)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\u20ac\U0001f600", max_size=3), inner),
    max_leaves=12,
)


@given(TREES)
def test_what_is_written_is_read_back_and_written_alike(value):
    assert loads(dumps(value)) == value
    assert dumps(json.loads(json.dumps(value))) == dumps(value)


def test_every_kind_has_its_form():
    value = {"b": [True, False, None], "a": ("x", 1, -2.5), "": {}}
    assert dumps(value) == b'{"":{},"a":["x",1,-2.5],"b":[true,false,null]}'
    # By UTF-16 units (RFC 8785, section 3.2.3): a pair of surrogates, from D800 on, stands before U+FB33.
    assert dumps({"\ufb33": 1, "\U0001f600": 2, "b": 3}) == '{"b":3,"\U0001f600":2,"\ufb33":1}'.encode()
    assert type(loads(b"1")) is int
    assert type(loads(b"1.0")) is float


def nested(depth, inner="1"):
    return ("[" * depth + inner + "]" * depth).encode()


def test_depth_is_limited_alike_in_both_directions():
    deepest = json.loads(nested(MAX_DEPTH))
    assert loads(dumps(deepest)) == deepest
    objects = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    assert dumps(loads(objects)) == objects
    with pytest.raises(NotCanonical, match="nested deeper than 256"):
        dumps([deepest])
    with pytest.raises(NotCanonical, match="nested deeper than 256"):
        dumps({"a": deepest})
    with pytest.raises(NotCanonical, match="nested deeper than 256"):
        loads(nested(MAX_DEPTH + 1))
    with pytest.raises(NotCanonical, match="nested deeper than 256"):
        loads(b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1))


def test_depth_counts_what_is_open_at_once_and_no_brackets_in_texts():
    wide = b"[" + b",".join([b"[]", b"{}"] * MAX_DEPTH) + b"]"
    assert len(loads(wide)) == 2 * MAX_DEPTH
    beside = b"[" + b",".join([nested(MAX_DEPTH - 1)] * 2) + b"]"
    assert len(loads(beside)) == 2
    too_deep = b"[" + b",".join([b"[]", nested(MAX_DEPTH)]) + b"]"
    with pytest.raises(NotCanonical, match="nested"):
        loads(too_deep)
    text = "[" * 400 + '\\"{' * 400 + "\n"
    assert loads(json.dumps([text]).encode()) == [text]
    with pytest.raises(NotCanonical, match="nested"):
        loads(json.dumps(text).encode().join((b"[" * 300, b"]" * 300)))


def test_length_is_limited():
    assert loads(b"[1]", limit=3) == [1]
    with pytest.raises(NotCanonical, match="longer than 2 bytes"):
        loads(b"[1]", limit=2)
    assert canonical.MAX_BYTES == 64 << 20


@pytest.mark.parametrize("whole", [2**53, -(2**53)])
def test_whole_numbers_end_where_doubles_have_gaps(whole):
    step = 1 if whole > 0 else -1
    assert loads(dumps(whole)) == whole
    assert type(loads(dumps(whole))) is int
    with pytest.raises(NotCanonical, match=r"beyond 2\*\*53"):
        dumps(whole + step)
    with pytest.raises(NotCanonical, match=r"beyond 2\*\*53"):
        loads(str(whole + step).encode())
    with pytest.raises(NotCanonical, match=r"^1{40} is beyond 2\*\*53"):
        loads(b"1" * 5000)
    assert loads(b"-1000000000000000") == -(10**15)


def test_a_double_beyond_them_is_read_in_its_own_form_alone():
    for double in (2.0**53 + 2, -(2.0**60), 1e20, 999999999999999900000.0, -999999999999999900000.0):
        assert loads(dumps(double)) == double
        assert type(loads(dumps(double))) is float
    for other in (b"9007199254740993", b"100000000000000000001", b"-1152921504606846977", b"1000000000000000000000"):
        with pytest.raises(NotCanonical, match=r"beyond 2\*\*53"):
            loads(other)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a":1,"b":2,"b":3}', "the key 'b' stands twice"),
        (b"[NaN]", "NaN is no JSON number"),
        (b"[-Infinity]", "-Infinity is no JSON number"),
        (b"[1e400]", "1e400 is beyond the range of a double"),
        (b"[-1e400]", "beyond the range"),
        (b"[1,]", "Expecting value"),
        (b"\xff", "codec"),
    ],
)
def test_what_is_refused_is_named(data, said):
    with pytest.raises(NotCanonical, match=said):
        loads(data)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "nan is no JSON number"),
        (float("-inf"), "-inf is no JSON number"),
        ({"a": {1, 2}}, "set has no JSON form"),
        ({"a": {2: 1}}, "a key is no string"),
        (["\udc00"], "a lone surrogate"),
        ({"\ud800": 1}, "a lone surrogate"),
        ([b"x"], "bytes has no JSON form"),
    ],
)
def test_what_has_no_form_is_named(value, said):
    with pytest.raises(NotCanonical, match=said):
        dumps(value)
