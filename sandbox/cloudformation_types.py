"""CloudFormation resource types that moto 5.2.5 lacks, as far as the stacks use them.

Source: the AWS resource and property types reference. Each stands with what `Ref` and `Fn::GetAtt … Arn` return. moto
knows none of them (`cloudformation/parsing.py` get_model_map). Updating one means making it again, which all of them
bear.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from moto.core.common_models import CloudFormationModel

from sandbox import surroundings

Create = Callable[[dict[str, Any], str], tuple[str, str]]
_made: list[type] = []  # Python holds subclasses weakly


def install() -> None:
    """Make the types known to moto, which lists the direct subclasses of its model."""
    known = {kind.cloudformation_type() for kind in CloudFormationModel.__subclasses__()}
    for type_name, (create, name_property) in TYPES.items():
        if type_name not in known:
            _made.append(_model(type_name, create, name_property))


def _model(type_name: str, create: Create, name_property: str) -> type:
    def build(cls: Any, /, resource_name: str, cloudformation_json: dict[str, Any], *_: Any, **__: Any) -> Any:
        made = cls()
        made.physical_resource_id, made.arn = create(cloudformation_json.get("Properties", {}), resource_name)
        return made

    def update(cls: Any, /, original_resource: Any, cloudformation_json: dict[str, Any], **_: Any) -> Any:
        return build(cls, original_resource.physical_resource_id, cloudformation_json)

    members = {
        "__module__": "moto.sandbox.models",  # moto groups its models by module
        "physical_resource_id": None,
        "arn": None,
        "cloudformation_type": staticmethod(lambda: type_name),
        "cloudformation_name_type": staticmethod(lambda: name_property),
        "create_from_cloudformation_json": classmethod(build),
        "update_from_cloudformation_json": classmethod(update),
        "delete_from_cloudformation_json": classmethod(lambda cls, *a, **k: None),
        "delete": lambda self, *a: None,
        "has_cfn_attr": classmethod(lambda cls, name: name in ("Arn", "Id")),
        "get_cfn_attribute": lambda self, name: self.arn,
    }
    return type(CloudFormationModel)("Sandbox" + type_name.replace("::", ""), (CloudFormationModel,), members)


def _bucket_policy(properties: dict[str, Any], name: str) -> tuple[str, str]:
    bucket = properties["Bucket"]
    surroundings.client("s3").put_bucket_policy(Bucket=bucket, Policy=json.dumps(properties["PolicyDocument"]))
    return bucket, bucket


def _queue_policy(properties: dict[str, Any], name: str) -> tuple[str, str]:
    for url in properties["Queues"]:
        policy = json.dumps(properties["PolicyDocument"])
        surroundings.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    return name, name


def _secret(properties: dict[str, Any], name: str) -> tuple[str, str]:
    manager, generate = surroundings.client("secretsmanager"), properties.get("GenerateSecretString")
    value = properties.get("SecretString", "")
    if generate is not None:
        length = int(generate.get("PasswordLength", 32))
        password = manager.get_random_password(PasswordLength=length, ExcludePunctuation=True)["RandomPassword"]
        template = generate.get("SecretStringTemplate")
        value = json.dumps({**json.loads(template), generate["GenerateStringKey"]: password}) if template else password
    try:
        arn = manager.create_secret(Name=properties.get("Name", name), SecretString=value)["ARN"]
    except manager.exceptions.ResourceExistsException:  # an update keeps the value
        arn = manager.describe_secret(SecretId=name)["ARN"]
    return arn, arn


def _event_invoke_config(properties: dict[str, Any], name: str) -> tuple[str, str]:
    settings = {key: properties[key] for key in ("DestinationConfig", "MaximumRetryAttempts") if key in properties}
    function = properties["FunctionName"].rsplit(":", 1)[-1]
    surroundings.client("lambda").put_function_event_invoke_config(FunctionName=function, **settings)
    return name, name


TYPES: dict[str, tuple[Create, str]] = {
    "AWS::S3::BucketPolicy": (_bucket_policy, ""),
    "AWS::SQS::QueuePolicy": (_queue_policy, ""),
    "AWS::SecretsManager::Secret": (_secret, "Name"),
    "AWS::Lambda::EventInvokeConfig": (_event_invoke_config, ""),
    "AWS::CDK::Metadata": (lambda properties, name: (name, name), ""),
}
