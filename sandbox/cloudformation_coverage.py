"""Which resource types and properties of a template the sandbox carries out, so that nothing is dropped in silence.

CloudFormation applies each property or fails. moto 5.2.5 warns in its log about a type it does not know and leaves
the resource out (`cloudformation/parsing.py` resource_class_from_type), and never says that it ignores a property.
Here each type that the stacks use stands with the properties that are obeyed, and those that mean nothing on one
machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Coverage:
    """Of one resource type: `obeyed` properties have their effect; `idle` ones are accepted, for the reason given."""

    obeyed: str
    idle: str = ""
    because: str = ""

    def unknown(self, properties: dict[str, Any]) -> list[str]:
        """Properties that would be lost."""
        return sorted(set(properties) - set(self.obeyed.split()) - set(self.idle.split()))


NO_NETWORK = "jobs and functions are processes of this machine"
NO_IAM = "every request is allowed, but for a bucket policy's Deny"

COVERAGE = {
    "AWS::Batch::ComputeEnvironment": Coverage(
        "ComputeEnvironmentName ComputeResources ServiceRole State Tags Type",
        "ReplaceComputeEnvironment UpdatePolicy",
        "they say how to update it; the sandbox is reset instead",
    ),
    "AWS::Batch::JobDefinition": Coverage(
        "ContainerProperties JobDefinitionName Parameters PlatformCapabilities PropagateTags RetryStrategy Tags "
        "Timeout Type"
    ),
    "AWS::Batch::JobQueue": Coverage("ComputeEnvironmentOrder JobQueueName Priority State Tags"),
    "AWS::CDK::Metadata": Coverage("", "Analytics", "it only reports usage of the CDK"),
    "AWS::EC2::FlowLog": Coverage(
        "DeliverLogsPermissionArn LogDestination LogDestinationType LogGroupName ResourceId ResourceType Tags "
        "TrafficType"
    ),
    "AWS::EC2::InternetGateway": Coverage("Tags"),
    "AWS::EC2::NatGateway": Coverage("AllocationId SubnetId Tags"),
    "AWS::EC2::EIP": Coverage("Domain Tags"),
    "AWS::EC2::Route": Coverage("DestinationCidrBlock GatewayId NatGatewayId RouteTableId"),
    "AWS::EC2::RouteTable": Coverage("Tags VpcId"),
    "AWS::EC2::SecurityGroup": Coverage(
        "GroupDescription SecurityGroupIngress Tags VpcId", "GroupName SecurityGroupEgress", NO_NETWORK
    ),
    "AWS::EC2::SecurityGroupIngress": Coverage(
        "Description FromPort GroupId IpProtocol SourceSecurityGroupId ToPort CidrIp", "", NO_NETWORK
    ),
    "AWS::EC2::Subnet": Coverage("AvailabilityZone CidrBlock Tags VpcId", "MapPublicIpOnLaunch", NO_NETWORK),
    "AWS::EC2::SubnetRouteTableAssociation": Coverage("RouteTableId SubnetId"),
    "AWS::EC2::VPC": Coverage("CidrBlock InstanceTenancy Tags", "EnableDnsHostnames EnableDnsSupport", NO_NETWORK),
    "AWS::EC2::VPCEndpoint": Coverage("PolicyDocument RouteTableIds ServiceName SubnetIds VpcEndpointType VpcId"),
    "AWS::EC2::VPCGatewayAttachment": Coverage("InternetGatewayId VpcId"),
    "AWS::Events::Rule": Coverage(
        "Description EventBusName EventPattern Name RoleArn ScheduleExpression State Tags Targets"
    ),
    "AWS::IAM::ManagedPolicy": Coverage("Description ManagedPolicyName Path PolicyDocument Roles"),
    "AWS::IAM::Policy": Coverage("PolicyDocument PolicyName Roles"),
    "AWS::IAM::Role": Coverage(
        "AssumeRolePolicyDocument Description ManagedPolicyArns MaxSessionDuration Path PermissionsBoundary Policies "
        "RoleName Tags"
    ),
    "AWS::Lambda::EventInvokeConfig": Coverage(
        "DestinationConfig FunctionName MaximumRetryAttempts Qualifier",
        "MaximumEventAgeInSeconds",
        "an invocation waits for seconds here, never for minutes",
    ),
    "AWS::Lambda::Function": Coverage(
        "Code DeadLetterConfig Description Environment FunctionName Handler Layers LoggingConfig MemorySize "
        "ReservedConcurrentExecutions Role Runtime Tags Timeout",
        "Architectures EphemeralStorage VpcConfig",
        NO_NETWORK,
    ),
    "AWS::Lambda::LayerVersion": Coverage(
        "CompatibleRuntimes Content Description LayerName", "CompatibleArchitectures", "the layer runs on this machine"
    ),
    "AWS::Lambda::Permission": Coverage("Action FunctionName Principal SourceAccount SourceArn"),
    "AWS::Logs::LogGroup": Coverage("LogGroupName RetentionInDays KmsKeyId Tags"),
    "AWS::S3::Bucket": Coverage(
        "BucketEncryption BucketName LifecycleConfiguration NotificationConfiguration PublicAccessBlockConfiguration "
        "Tags VersioningConfiguration",
        "OwnershipControls",
        NO_IAM,
    ),
    "AWS::S3::BucketPolicy": Coverage("Bucket PolicyDocument"),
    "AWS::SQS::Queue": Coverage(
        "DelaySeconds FifoQueue KmsMasterKeyId MessageRetentionPeriod QueueName ReceiveMessageWaitTimeSeconds "
        "RedrivePolicy Tags VisibilityTimeout",
        "SqsManagedSseEnabled",
        "nothing is encrypted at rest here",
    ),
    "AWS::SQS::QueuePolicy": Coverage("PolicyDocument Queues"),
    "AWS::SecretsManager::Secret": Coverage("Description GenerateSecretString Name SecretString"),
    "AWS::StepFunctions::StateMachine": Coverage(
        "Definition DefinitionS3Location DefinitionString DefinitionSubstitutions RoleArn StateMachineName "
        "StateMachineType Tags",
        "LoggingConfiguration TracingConfiguration",
        "histories are kept by the sandbox itself",
    ),
}


def faults(template: dict[str, Any]) -> list[str]:
    """Everything of a template that the sandbox would lose, named."""
    found = []
    for name, resource in template.get("Resources", {}).items():
        kind = resource["Type"]
        coverage = COVERAGE.get(kind)
        if coverage is None:
            found.append(f"{name}: the sandbox does not know the resource type {kind}")
        else:
            lost = coverage.unknown(resource.get("Properties", {}))
            found.extend(f"{name}: the sandbox would ignore the property {one} of {kind}" for one in lost)
    return found
