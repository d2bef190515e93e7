"""The operator of the deployed re-import."""

from typing import Any

import pytest

from tests.sandbox.reimport.operating import Operator


@pytest.fixture(scope="session")
def operator(sandbox: Any) -> Operator:
    return Operator(sandbox)
