"""Where importer jobs are submitted to: a Fargate Spot queue for uploads, an on-demand one for everything else (R4)."""

from __future__ import annotations

from aws_cdk import aws_batch as batch
from constructs import Construct

from stacks.constructs.network import Network
from stacks.settings import Settings


class ImporterQueues(Construct):
    """The two queues, each with a compute environment that has no fixed name and so can be replaced (case-C08)."""

    def __init__(self, scope: Construct, id_: str, *, settings: Settings, network: Network) -> None:
        super().__init__(scope, id_)
        self._settings, self._network = settings, network
        self.spot = self._queue("Spot", "spot", spot=True)
        self.on_demand = self._queue("OnDemand", "on-demand", spot=False)

    def _queue(self, id_: str, suffix: str, *, spot: bool) -> batch.JobQueue:
        environment = batch.FargateComputeEnvironment(
            self,
            f"{id_}Environment",
            vpc=self._network.vpc,
            vpc_subnets=self._network.subnets,
            security_groups=self._network.security_groups,
            spot=spot,
            maxv_cpus=self._settings.max_vcpus,
        )
        return batch.JobQueue(
            self,
            f"{id_}Queue",
            job_queue_name=f"{self._settings.importer_name}-{suffix}",
            compute_environments=[batch.OrderedComputeEnvironment(compute_environment=environment, order=1)],
        )
