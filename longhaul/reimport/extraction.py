"""From an ended run to its reports: by event, by hourly sweep, or by hand (R18).

The status event is a hint that may come early, twice or never. So the Map Run is polled until it has ended and its
manifest is of this drive and no earlier one, and the sweep looks for reports that are missing or out of date.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from longhaul.reimport.errors import RefusedError
from longhaul.reimport.report import MANIFEST_ETAG, Report, report_prefix, write_report
from longhaul.reimport.results import RESULTS_PREFIX, Results, results
from longhaul.reimport.runs import RUNNING, MapRun, Runs
from longhaul.reimport.sizing import Tiers

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_stepfunctions import SFNClient

POLL_SECONDS = 2.0  # the quota of the map-run calls refills once a second for the whole account
MANIFEST_GRACE = timedelta(minutes=5)  # after the Map Run's end; a manifest not there by then is not coming
SWEEP_DAYS = timedelta(days=15)  # a day more than AWS redrives for


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """Writes the reports of one state machine's runs."""

    s3: S3Client
    runs: Runs
    bucket: str
    tiers: Tiers
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @classmethod
    def of(cls, s3: S3Client, sfn: SFNClient, state_machine_arn: str, bucket: str, tiers: Tiers) -> Extractor:
        """Make one from clients and the names of the stack."""
        return cls(s3=s3, runs=Runs(sfn, state_machine_arn), bucket=bucket, tiers=tiers)

    def extract(self, run_arn: str, wait_seconds: float) -> list[Report]:
        """Write a report for every Map Run of an ended execution, waiting for its results for so long at most.

        A Map Run without a current manifest gets a report that says so. RefusedError if it is still running then.
        """
        run = self.runs.describe(run_arn)
        if run.status == RUNNING:  # redriven since the event: its next end has an event of its own
            raise RefusedError(f"{run.name} is running; its results are written when it has ended")
        deadline = self.monotonic() + wait_seconds
        reports = []
        for map_run in self.runs.map_runs(run_arn):
            ended = self._wait(map_run, deadline)
            with results() as found:
                self.load(ended, found)
                reports.append(write_report(self.s3, self.bucket, run, ended, found, self.tiers))
        return reports

    def load(self, map_run: MapRun, found: Results) -> bool:
        """Read the results of a Map Run's last drive into `found`; False, and a problem noted, if there are none."""
        if self._is_current(map_run):
            found.read(self.s3, self.bucket, map_run.id)
            return found.manifest_etag is not None
        if not map_run.total:
            return True
        found.problems.append(f"the results of {map_run.id} are not written yet, or never will be")
        return False

    def sweep(self) -> list[str]:
        """Write the reports that are missing or out of date and return the ARNs of their runs."""
        oldest = self.now() - SWEEP_DAYS
        done = []
        for run in self.runs.recent():
            ended = run.stopped
            if run.status == RUNNING or ended is None or ended < oldest:
                continue
            map_runs = self.runs.map_runs(run.arn)
            if not any(m.status == RUNNING for m in map_runs) and any(self._is_due(m) for m in map_runs):
                try:
                    self.extract(run.arn, wait_seconds=0)
                except RefusedError:  # redriven since it was listed: its next end comes with an event, or a sweep
                    continue
                done.append(run.arn)
        return done

    def _wait(self, map_run: MapRun, deadline: float) -> MapRun:
        while map_run.status == RUNNING or (self._is_awaited(map_run) and not self._is_current(map_run)):
            if self.monotonic() + POLL_SECONDS > deadline:
                break
            self.sleep(POLL_SECONDS)
            map_run = self.runs.describe_map_run(map_run.arn)
        if map_run.status == RUNNING:
            raise RefusedError(f"the Map Run {map_run.id} is still running; its results are written when it has ended")
        return map_run

    def _is_awaited(self, map_run: MapRun) -> bool:
        """Say whether an ended Map Run's manifest may still come: what an empty list writes is not documented."""
        return map_run.total > 0 and (map_run.stopped is None or self.now() - map_run.stopped < MANIFEST_GRACE)

    def _is_current(self, map_run: MapRun) -> bool:
        """Say whether the manifest was written since the Map Run was last driven; S3 keeps whole seconds."""
        written = self._modified(f"{RESULTS_PREFIX}{map_run.id}/manifest.json")
        return written is not None and written[0] >= map_run.last_driven.replace(microsecond=0)

    def _is_due(self, map_run: MapRun) -> bool:
        manifest = self._modified(f"{RESULTS_PREFIX}{map_run.id}/manifest.json")
        if manifest is None:
            return False
        try:
            summary = self.s3.head_object(Bucket=self.bucket, Key=f"{report_prefix(map_run.id)}summary.json")
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise
            return True
        return summary["Metadata"].get(MANIFEST_ETAG) != manifest[1]

    def _modified(self, key: str) -> tuple[datetime, str] | None:
        try:
            found = self.s3.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise
            return None
        return found["LastModified"], found["ETag"].strip('"')
