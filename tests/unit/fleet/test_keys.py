"""Names of objects (I9)."""

from __future__ import annotations

import pytest

from longhaul.fleet.keys import Attempt, IllegalNameError, QueueKeys, slot


def test_names() -> None:
    """As the fleet's page lists them."""
    keys = QueueKeys("nightly-1")
    assert keys.claim("q1.sf10") == "fleet/nightly-1/claims/q1.sf10"
    assert keys.index("q1.sf10") == "fleet/nightly-1/done/q1.sf10"
    assert slot(3) == "fleet/slots/3"
    attempt = Attempt(generation=2, number=11)
    prefix = keys.attempt("q1.sf10", attempt)
    assert prefix == "fleet/nightly-1/results/q1.sf10/g2/attempt-11/"
    assert keys.attempt_of("q1.sf10", f"{prefix}checkpoint/x.json") == attempt
    assert keys.attempt_of("other", f"{prefix}checkpoint/x.json") is None
    assert keys.attempt_of("q1.sf10", keys.results("q1.sf10") + "attempt-1/../../x.py") is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "-a", "a b", "ä", "a\n", "x" * 129])
def test_no_name_leaves_its_prefix(name: str) -> None:
    """I9, S47."""
    with pytest.raises(IllegalNameError):
        QueueKeys(name)
    with pytest.raises(IllegalNameError):
        QueueKeys("q").claim(name)
