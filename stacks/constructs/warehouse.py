"""The warehouse: a Postgres that is given by its secret, or an Aurora cluster of our own."""

from __future__ import annotations

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_rds as rds
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stacks.constructs.findings import acknowledge
from stacks.constructs.network import Network
from stacks.settings import CreatedWarehouse, GivenWarehouse, Settings

DATABASE = "warehouse"


class Warehouse(Construct):
    """What the importer needs of the warehouse: `secret`, JSON with host, port, username, password and dbname."""

    def __init__(self, scope: Construct, id_: str, *, settings: Settings, network: Network) -> None:
        super().__init__(scope, id_)
        if isinstance(settings.warehouse, GivenWarehouse):
            self.secret = self._given(settings.warehouse)
        else:
            self.secret = self._created(settings.warehouse, network)

    def _given(self, given: GivenWarehouse) -> secretsmanager.ISecret:
        arn = given.secret
        if not arn.startswith("arn:"):
            arn = Stack.of(self).format_arn(
                service="secretsmanager",
                resource="secret",
                resource_name=arn,
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
        key = None if given.secret_key_arn is None else kms.Key.from_key_arn(self, "SecretKey", given.secret_key_arn)
        return secretsmanager.Secret.from_secret_attributes(self, "Secret", secret_complete_arn=arn, encryption_key=key)

    def _created(self, created: CreatedWarehouse, network: Network) -> secretsmanager.ISecret:
        cluster = rds.DatabaseCluster(
            self,
            "Cluster",
            engine=rds.DatabaseClusterEngine.aurora_postgres(version=rds.AuroraPostgresEngineVersion.VER_17_7),
            credentials=rds.Credentials.from_generated_secret("importer"),
            default_database_name=DATABASE,
            vpc=network.vpc,
            vpc_subnets=network.subnets,
            writer=rds.ClusterInstance.serverless_v2("Writer", enable_performance_insights=True),
            serverless_v2_min_capacity=created.min_capacity,
            serverless_v2_max_capacity=created.max_capacity,
            storage_encrypted=True,
            iam_authentication=True,
            backup=rds.BackupProps(retention=Duration.days(14)),
            deletion_protection=created.deletion_protection,
            removal_policy=RemovalPolicy.SNAPSHOT,
            enable_performance_insights=True,  # R23 reads its DBLoadRelativeToNumVCPUs
            parameters={"rds.force_ssl": "1"},
        )
        for group in network.security_groups:
            cluster.connections.allow_default_port_from(ec2.Connections(security_groups=[group]), "Importer jobs")
        secret = cluster.secret
        if secret is None:
            raise AssertionError("a generated secret is missing")
        acknowledge(cluster, "RDS11", "A port is no secret: the cluster admits the importer's security groups alone")
        acknowledge(
            cluster.node.find_child("Secret"),
            "SMG4",
            "Rotating by hand needs no deploy, since each job reads the secret when it starts; automatic rotation "
            "would deploy an application of its own into the VPC",
        )
        if not created.deletion_protection:
            acknowledge(
                cluster, "RDS10", "Deleting the stack of a development environment takes a final snapshot instead"
            )
        return secret
