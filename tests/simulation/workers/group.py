"""The Auto Scaling group as far as the fleet relies on it, and what an instance has of it (F16, F21, I10)."""

from __future__ import annotations

import math
from collections.abc import Callable

from longhaul.fleet.lease import State
from longhaul.fleet.machine import Identity, Lifecycle, MachineError, Notice, NoticeKind
from tests.simulation.server import Server
from tests.simulation.workers.instance import Instance
from tests.simulation.world import ViolationError, World

BOOT_SECONDS, GOING_SECONDS, HOOK_SECONDS = 60.0, 15.0, 120.0
ZERO_SECONDS = 180.0  # that a fleet may be without capacity while somebody is about to raise its floor


class Group:
    """Replaces what dies, shrinks by whoever asks, and not below its minimum."""

    def __init__(self, world: World, server: Server, jobs: list[str], launch: Callable[[], Instance]) -> None:
        self.world, self._server, self._jobs, self._launch = world, server, jobs, launch
        self.desired = self.minimum = 0
        self.rebalances = True
        self.minima: list[tuple[float, int]] = []  # that were asked for, and when
        self.instances: list[Instance] = []
        self._pending = 0

    @property
    def live(self) -> list[Instance]:
        """Those that run."""
        return [one for one in self.instances if one.state == "running"]

    def begin(self, size: int) -> None:
        """As the stack is deployed, and the queue is published."""
        self.desired, self.minimum = size, 1
        for _ in range(size):
            self.instances.append(self._launch())

    def set_minimum(self, minimum: int) -> None:
        """As housekeeping and operators do; the group keeps its desired capacity above it."""
        if minimum != self.minimum:
            self.world.note(f"group: minimum {minimum}")
        self.minima.append((self.world.now, minimum))
        self.minimum, self.desired = minimum, max(self.desired, minimum)
        self.reconcile()

    def reconcile(self) -> None:
        """Launch what is missing."""
        while len(self.live) + self._pending < self.desired:
            self._pending += 1
            self.world.at(BOOT_SECONDS, self._boot)

    def _boot(self) -> None:
        self._pending -= 1
        if len(self.live) < self.desired:
            self.instances.append(self._launch())

    def retire(self, instance: Instance) -> bool:
        """TerminateInstanceInAutoScalingGroup with decrement; refused at the minimum."""
        if self.desired - 1 < self.minimum:
            return False
        self._check_idle(instance, "retires")
        self.desired -= 1
        self.terminate(instance, "retires")
        if self.desired == 0 and self._open():
            self.world.at(ZERO_SECONDS, self._check_capacity)
        return True

    def rebalance(self) -> None:
        """AWS moves a host to another zone, if it may (S4): a new one, then one that is not protected goes."""
        free = [one for one in self.live if not one.protected and one.notice is None]
        if not self.rebalances or not free:
            return
        self._check_idle(free[0], "is moved to another zone")
        self.world.note(f"{free[0].name} is to go: zones are rebalanced")
        free[0].notice = Notice(kind=NoticeKind.SCALE_IN)
        self.world.at(HOOK_SECONDS, lambda: self.terminate(free[0], "is moved"))

    def terminate(self, instance: Instance, why: str) -> None:
        """It shuts down, and is gone a little later."""
        if instance.state == "running":
            self.world.note(f"{instance.name} {why}")
            instance.state = "shutting-down"
            self.world.at(GOING_SECONDS, lambda: self.gone(instance, why))

    def gone(self, instance: Instance, why: str) -> None:
        """It is dead, at once."""
        if instance.state == "terminated":
            return
        self.world.note(f"{instance.name} is gone: {why}")
        instance.state, instance.paused_until = "terminated", math.inf
        instance.kill_processes()
        self.reconcile()

    def _open(self) -> list[str]:
        return [job for job in self._jobs if not self._server.is_done(job)]

    def _check_idle(self, instance: Instance, what: str) -> None:
        for key in self._server.objects:
            there = self._server.lease(key) if "/claims/" in key else None
            if there is not None and there.state is State.RUNNING and there.owner.instance == instance.id:
                raise ViolationError(f"I10 {instance.name} {what}, and holds {key}")

    def _check_capacity(self) -> None:
        if self.desired == 0 and self._open():
            raise ViolationError(f"I10 no capacity, and {self._open()} not done")


class Membership:
    """The `Machine` and the `Notices` of an instance."""

    def __init__(self, instance: Instance, group: Group) -> None:
        self._instance, self._group = instance, group
        self.identity = Identity(instance=instance.id, lifecycle=Lifecycle.SPOT)

    def keep(self) -> bool:
        """See `Machine.keep`."""
        self._ask("KeepHost")
        return False

    def suspend_rebalancing(self) -> None:
        """See `Machine.suspend_rebalancing`."""
        self._ask("SuspendProcesses")
        self._group.rebalances = False

    def protect(self, busy: bool) -> None:
        """See `Machine.protect`."""
        self._ask("SetInstanceProtection")
        self._instance.protected = busy

    def retire(self) -> bool:
        """See `Machine.retire`. Its answer may be lost, and the host on its way."""
        self._ask("TerminateInstanceInAutoScalingGroup")
        return self._group.retire(self._instance)

    def release_hook(self) -> None:
        """See `Machine.release_hook`."""
        self._ask("CompleteLifecycleAction")
        self._group.terminate(self._instance, "was released")

    def check(self) -> Notice | None:
        """See `Notices.check`: the metadata service is near, and fails now and then (S58)."""
        instance = self._instance
        trouble = instance.choices.pick(4, instance.oddity / 5)
        if trouble == 1:
            raise MachineError("401")
        if trouble == 2:
            instance.world.sleep(4.5)
            raise KeyError("half an answer")
        if trouble == 3:
            instance.world.sleep(4.5)
        return instance.notice

    def _ask(self, what: str) -> None:
        instance = self._instance
        if instance.world.now < instance.cut_off_until or instance.choices.pick(2, instance.oddity):
            instance.troubled = True
            instance.world.sleep(5)
            raise MachineError(what)
        instance.world.sleep(0.2)
