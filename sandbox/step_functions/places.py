"""Where an execution lives: account, Region and partition, and the names (ARNs) that follow from them.

AWS: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-examine-map-run.html (children and their state
machine are named `<state machine>/<label>`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Place:
    account: str
    region: str
    partition: str

    def arn(self, kind: str, *parts: str) -> str:
        return ":".join((f"arn:{self.partition}:states:{self.region}:{self.account}:{kind}", *parts))
