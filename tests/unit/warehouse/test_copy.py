"""Numbers that no column holds are refused by name, not by a database error."""

from __future__ import annotations

import pytest

from longhaul.warehouse.copy import ValueRangeError, encoder
from longhaul.warehouse.tables import SAMPLE_MODEL, SCORE


def test_a_number_out_of_range_names_its_column() -> None:
    encode = encoder(SAMPLE_MODEL)
    encode(0, ["m", 2**63 - 1, -(2**63), None, None, None, None])
    with pytest.raises(ValueRangeError, match=r"sample_model\.output_tokens"):
        encode(0, ["m", 1, 2**63, None, None, None, None])


def test_a_row_must_have_every_column() -> None:
    with pytest.raises(ValueError, match="zip"):
        encoder(SCORE)(0, ["only one"])
