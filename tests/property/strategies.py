"""Make what strangers send: header texts, bodies, almost-JSON; and what they would have to forge."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tests.deliveries import NOW

# What HTTP servers hand on is latin-1; what a test harness or a proxy hands on may be anything.
LATIN = st.text(st.characters(max_codepoint=255), max_size=60)
ANYTHING = st.text(max_size=60)
BODIES = st.binary(max_size=200)

# Pieces of which signature headers are made, so that chance comes near to what a parser looks for.
_WORDS = (
    "t=",
    "v1=",
    "v1,",
    "v1a,",
    "v0=",
    "sha256=",
    ",",
    ";",
    "=",
    "==",
    " ",
    "t",
    "\0",
    "\r\n ",
    "\xe9",
    "\xff",
)
_TIMES = ("1767225600", "1_7", "+1", "-1", "\u0663", "9" * 400)
_DIGESTS = ("0" * 64, "f" * 64, "F" * 64, "A" * 43 + "=", "A" * 86 + "==")
_PIECES = st.sampled_from((*_WORDS, *_TIMES, *_DIGESTS))
HEADER_TEXTS = st.one_of(LATIN, ANYTHING, st.lists(_PIECES, max_size=12).map("".join))

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**18, max_value=10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(), max_size=8),
)
VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
_NAMES = st.sampled_from(
    ["id", "type", "account", "context", "livemode", "created", "object", "data", "x", "é"]
)


@st.composite
def json_texts(draw: st.DrawFn) -> bytes:
    """Write an object as providers do: any blanks, any escapes, names repeated."""
    members = draw(st.lists(st.tuples(_NAMES, VALUES), max_size=8))
    ascii_only = draw(st.booleans())
    blank = draw(st.sampled_from(["", " ", "\n\t", "\r\n  "]))
    text = ",".join(
        f"{blank}{json.dumps(name, ensure_ascii=ascii_only)}{blank}:{blank}"
        f"{json.dumps(value, ensure_ascii=ascii_only, indent=draw(st.sampled_from([None, 1])))}"
        for name, value in members
    )
    return f"{blank}{{{text}{blank}}}{blank}".encode("utf-8", "surrogatepass")


# Numbers, literals, escapes and brackets as JSON almost has them.
_FRAGMENTS = st.sampled_from(
    rb"""{ } [ ] , : " "id" "type":"t" \ \u \ud83d \u00e9 \x e E+ 0 01 - -0 1. .5 1e5 1e400 'a' // """.split()
    + b"NaN Infinity -Infinity tru true null \xff \xc3\xa9 \xed\xa0\x80 \xef\xbb\xbf \xe2\x80\xa8 \x7f".split()
    + [b" ", b"\n", b"\x0c", b"\0", b"9" * 25]
)


@st.composite
def almost_json(draw: st.DrawFn) -> bytes:
    """Give JSON with a fragment put in, a slice taken out or a byte changed; or fragments alone."""
    if draw(st.booleans()):
        return b"".join(draw(st.lists(_FRAGMENTS, max_size=14)))
    text = draw(json_texts())
    at = draw(st.integers(0, len(text)))
    end = draw(st.integers(at, min(len(text), at + 3)))
    return text[:at] + draw(st.one_of(_FRAGMENTS, st.binary(max_size=2), st.just(b""))) + text[end:]


# Headers that a careless reader spends seconds on.
HOSTILE = {
    "1 MB of nothing": "a" * 1_000_000,
    "1 MB of commas": "," * 1_000_000,
    "1 MB of equals": "=" * 1_000_000,
    "1 MB of blanks": " " * 1_000_000,
    "10,000 empty v1": "t=1767225600" + ",v1=" * 10_000,
    "10,000 full v1": "t=1767225600" + f",v1={'0' * 64}" * 10_000,
    "10,000 entries": f"v1,{'A' * 43}= " * 10_000,
    "10,000 public-key entries": f"v1a,{'A' * 86}== " * 10_000,
    "as many entries as fit": f"v1a,{'A' * 86}== " * 16,
    "half a megabyte of é": "é" * 500_000,
    "digits without end": "t=" + "9" * 1_000_000 + f",v1={'0' * 64}",
    "base64 without end": "v1," + "A" * 1_000_000,
    "folded": "t=1767225600,\r\n v1=" + "0" * 64,
}

# Changes to a good header: (where, how many characters go, what comes).
EDITS = st.lists(
    st.tuples(
        st.integers(0, 120),
        st.integers(0, 2),
        st.sampled_from(
            [
                "",
                "0",
                "9",
                ",",
                "=",
                " ",
                "t=",
                "v1=",
                "v0=",
                "v1,",
                "a",
                "F",
                "+",
                "_",
                ".",
                "é",
                "\n",
                f"t={NOW}",
            ]
        ),
    ),
    min_size=1,
    max_size=3,
)


def edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    """Replace up to two characters at each place by something else."""
    for at, length, new in edits:
        text = text[:at] + new + text[at + length :]
    return text
