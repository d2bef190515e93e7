"""Where importer jobs run: a VPC that is given, or one of our own."""

from __future__ import annotations

from aws_cdk import Annotations, Fn, Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from stacks.constructs.findings import acknowledge
from stacks.constructs.logs import log_group
from stacks.settings import CreatedNetwork, GivenNetwork, Settings


class Network(Construct):
    """VPC, the subnets of the jobs and their security groups. No look-up: what is given is named in full."""

    def __init__(self, scope: Construct, id_: str, *, settings: Settings) -> None:
        super().__init__(scope, id_)
        self.vpc: ec2.IVpc
        self.security_groups: list[ec2.ISecurityGroup]
        if isinstance(settings.network, GivenNetwork):
            self._take(settings.network)
        else:
            self._create(settings.network, settings)

    def _take(self, given: GivenNetwork) -> None:
        zones = [
            Fn.select(index % 2, Fn.get_azs()) for index in range(len(given.subnet_ids))
        ]  # labels: nothing reads them
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=given.vpc_id, availability_zones=zones, private_subnet_ids=list(given.subnet_ids)
        )
        for subnet in self.vpc.private_subnets:
            Annotations.of(subnet).acknowledge_warning(
                "@aws-cdk/aws-ec2:noSubnetRouteTableId", "Nothing here adds a route to a given network"
            )
        self.subnets = ec2.SubnetSelection(subnets=self.vpc.private_subnets)
        self.security_groups = [
            ec2.SecurityGroup.from_security_group_id(self, f"Group{index}", group, mutable=False)
            for index, group in enumerate(given.security_group_ids)
        ]

    def _create(self, created: CreatedNetwork, settings: Settings) -> None:
        jobs = ec2.SubnetType.PRIVATE_WITH_EGRESS if created.nat_gateways else ec2.SubnetType.PRIVATE_ISOLATED
        subnets = [ec2.SubnetConfiguration(name="jobs", subnet_type=jobs, cidr_mask=20)]
        if created.nat_gateways:
            subnets.append(ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24))
        vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=created.nat_gateways,
            subnet_configuration=subnets,
            restrict_default_security_group=False,  # doing it takes a custom resource; nothing uses that group
        )
        if created.nat_gateways:  # logs come from S3: gigabytes that need not pass a NAT gateway
            vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        if created.flow_logs:
            destination = ec2.FlowLogDestination.to_cloud_watch_logs(log_group(self, "RejectedTraffic", settings))
            vpc.add_flow_log("Rejected", destination=destination, traffic_type=ec2.FlowLogTrafficType.REJECT)
        else:
            acknowledge(vpc, "VPC7", "A sandbox VPC carries no packets: jobs are processes on the host of the sandbox")
        self.vpc = vpc
        self.subnets = ec2.SubnetSelection(subnet_type=jobs)
        self.security_groups = [
            ec2.SecurityGroup(
                self, "Jobs", vpc=vpc, description=f"Importer jobs of {Stack.of(self).stack_name}: outbound only"
            )
        ]
