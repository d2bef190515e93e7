r"""From JSON as Inspect writes it to JSON that every strict parser and Postgres' jsonb take.

Inspect's logs hold bare NaN and infinities, `\u0000` and lone surrogates. The first become the strings "NaN",
"Infinity" and "-Infinity", so that they stay distinguishable and never turn into 0 or null (case L04); NUL is dropped
(case L06); a lone surrogate becomes U+FFFD. Everything else, numbers of any length included, stays byte for byte.
"""

from __future__ import annotations

import re

# Each pattern is a run of what is left alone, then one thing to replace. The runs pass over strings and escapes whole,
# so a search must never begin inside one: each pattern also matches at the end, and at a byte that fits nowhere. Thus
# every search begins where the one before ended, and each byte is looked at once.
_STRING = rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'  # or one that never ends, in damaged text
_NONFINITE = re.compile(
    rb'((?:[^"NI\-]++|%s|-(?!Infinity)|N(?!aN)|I(?!nfinity))*+)(NaN|-?Infinity|\Z|.)' % _STRING, re.DOTALL
)
_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rb"((?:[^\\]++|\\[^u]|%s|\\u(?!0000|[dD][89a-fA-F]))*+)(\\u0000|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\Z|.)" % _PAIR,
    re.DOTALL,
)
# What must be there if there is anything to do; searched three times as fast as by `in`.
_SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# Non-finite numbers by what stands around them: searched for by their letters, many times as fast as `_NONFINITE`.
_LIKELY = [
    (re.compile(rb"%s(?<=[:,\[ \t\r\n]%s)(?=[,\]} \t\r\n])" % (word, word)), b'"%s"' % word)
    for word in (b"NaN", b"-Infinity", b"Infinity")
]
# Numbers with an exponent of three digits or more may lie beyond a double.
_LONG_EXPONENT = rb"-?[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{3,}"
_HUGE = re.compile(
    rb'((?:[^"0-9\-]++|%s|(?!%s)-?[0-9]++|-(?![0-9]))*+)(%s|\Z|.)' % (_STRING, _LONG_EXPONENT, _LONG_EXPONENT),
    re.DOTALL,
)


def storable(data: bytes) -> bytes:
    r"""`data` as valid UTF-8 without `\u0000` and lone surrogates."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            data = data.decode("utf-8", "replace").encode()
    return _ESCAPE.sub(_escape, data) if _SUSPECT.search(data) else data


def finite(data: bytes) -> bytes:
    """`data` with bare NaN, Infinity and -Infinity as strings."""
    return _NONFINITE.sub(_quote, data)


def likely_finite(data: bytes) -> bytes:
    """`data` with what looks like bare NaN, Infinity, -Infinity as strings: a guess that a strict parser must confirm.

    A text may hold the like. What comes of it then is no JSON: the quote put before the letters ends the text, and no
    value goes on with a letter, or with a minus sign, after its closing quote.
    """
    for pattern, quoted in _LIKELY:
        data = pattern.sub(quoted, data)
    return data


def within_double(data: bytes) -> bytes:
    """`data` with numbers beyond a double as the string of the infinity, or the 0, that every reader makes of them."""
    return _HUGE.sub(_huge, data)


def _escape(match: re.Match[bytes]) -> bytes:
    kept, found = match.groups()
    if len(found) < 2:
        return kept + found
    return kept if found == b"\\u0000" else kept + b"\xef\xbf\xbd"


def _quote(match: re.Match[bytes]) -> bytes:
    kept, found = match.groups()
    return kept + found if len(found) < 2 else kept + b'"' + found + b'"'


def _huge(match: re.Match[bytes]) -> bytes:
    kept, found = match.groups()
    if len(found) < 2:
        return kept + found
    value = float(found)
    if value == 0:
        return kept + b"0"
    if value in (float("inf"), float("-inf")):
        return kept + (b'"Infinity"' if value > 0 else b'"-Infinity"')
    return kept + found
