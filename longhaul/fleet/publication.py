"""The end of a job: what was measured is uploaded, merged, and only then is the claim done (F15, S31, S40, S48)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from longhaul.fleet import completion, lease
from longhaul.fleet.aside import AliveError
from longhaul.fleet.control import Control, Equipment, GivenUpError
from longhaul.fleet.errors import FleetError
from longhaul.fleet.holding import Verdict
from longhaul.fleet.keys import Place
from longhaul.fleet.lease import Completion, Outcome
from longhaul.fleet.taking import Taken
from longhaul.fleet.work import Merged

logger = logging.getLogger(__name__)

REPORT_SECONDS = 900.0
UNMADE = 75  # exit code of a report that could not be made here, whatever the records say
INDEX_SECONDS = 20.0


class Publication:
    """Publishes one attempt. Whatever stops the attempt stops this too; before the claim is done nothing is lost."""

    def __init__(self, equipment: Equipment, control: Control, taken: Taken, earlier: Sequence[Place]) -> None:
        self._equipment, self._control = equipment, control
        self._taken, self._place, self._earlier = taken, taken.place, earlier
        self._runtime = equipment.runtime

    def measured(self, exit_code: int | None, errors: Sequence[str]) -> Verdict:
        """The run ended with that exit code, and its queries are settled, or are among the errors."""
        self._control.upload("uploading the attempt", partial(self._equipment.results.upload, self._place))
        merged, trouble = self._report()
        if merged is not None:
            self._upload(merged)
        failed = exit_code != 0 or merged is None or merged.failed
        return self._complete(
            Completion(
                outcome=Outcome.REPORT_ERROR if merged is None else Outcome.FAILED if failed else Outcome.SUCCESS,
                exit_code=exit_code,
                summary=self._summary(merged) if merged is not None else None,
                records=merged.records if merged is not None else (),
                report_error=trouble,
                errors=tuple(errors),
                lost_slots=self._control.watch.lost_slots,
            )
        )

    def abandoned(self, attempts: int) -> Verdict:
        """So many attempts in a row measured nothing that the job is ended, with a summary if one can be had (F17)."""
        try:
            merged, trouble = self._report()
            if merged is not None:
                self._upload(merged)
        except GivenUpError as error:  # one that can never be uploaded is why it is abandoned, perhaps (S68)
            merged, trouble = None, str(error)
        return self._complete(
            Completion(
                outcome=Outcome.ABANDONED,
                summary=self._summary(merged) if merged is not None else None,
                records=merged.records if merged is not None else (),
                report_error=trouble,
                errors=(f"{attempts} attempts in a row measured nothing",),
            )
        )

    def _report(self) -> tuple[Merged | None, str | None]:
        """What was merged, or why nothing could be: the job has ended all the same, and does not run again (S8).

        An `OSError` of the command's start passes: that says nothing of the records, and another host may do better.
        """
        work, control = self._equipment.work, self._control
        try:
            code = control.run(
                lambda wake: work.report(self._place, self._earlier, on_exit=wake), seconds=REPORT_SECONDS
            )
        except AliveError:
            return None, "the report cannot be killed"
        if code == UNMADE:  # S3 is away, or the disk is full: it is no end of the job
            raise GivenUpError("the report could not be made here")
        if code != 0:
            return None, f"the report ended with {code}" if code is not None else "the report did not end"
        try:
            return work.merged(self._place), None
        except (OSError, ValueError) as error:
            return None, f"{type(error).__name__}: {error}"

    def _upload(self, merged: Merged) -> None:
        upload = partial(self._equipment.results.upload, self._place, merged.files)
        self._control.upload("uploading the summary", upload)

    def _summary(self, merged: Merged) -> str:
        return self._equipment.keys.attempt(self._place.job, self._place.attempt) + merged.files[0]

    def _complete(self, end: Completion) -> Verdict:
        control, claim, runtime = self._control, self._taken.claim, self._runtime
        lease_seconds = self._equipment.terms.lease_seconds
        while claim.deadline - runtime.clock() < lease_seconds / 2:
            seconds = max(0.0, claim.deadline - runtime.clock()) + 1
            control.call("renewing before the end", claim.renew, seconds)
            control.check()
        control.check()
        control.heeds_loss = False  # from here on nobody acts on the claim, and it is not held any more
        verdict = control.call("completing the claim", partial(claim.complete, end), lease_seconds)
        if verdict is Verdict.COMPLETED:
            logger.info("%s is done: %s", self._place.job, end.outcome)
            self._index()
        return verdict

    def _index(self) -> None:
        """It decides nothing, and anybody repairs it: a failure is no trouble (F7)."""
        store, keys, job = self._equipment.store, self._equipment.keys, self._place.job
        stood = self._taken.claim.stood

        def write() -> None:
            done = stood is not None and stood[0].completion is not None
            if stood is not None and done and completion.write_index(store, keys, job, *stood):
                return
            now = lease.seen(store.get(keys.claim(job)))
            if now is not None:
                completion.repair_index(store, keys, job, now)

        try:
            self._control.call("writing the index", write, INDEX_SECONDS)
        except FleetError as error:
            logger.info("the index of %s is left to others: %s", job, error)
