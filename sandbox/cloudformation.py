"""CloudFormation: refuse what cannot be carried out, and obey the properties that moto drops from types it knows.

Source: the AWS resource and property types reference. Gaps of moto 5.2.5: a bucket keeps encryption and tags only,
and its update without a name is a KeyError (`s3/models.py` FakeBucket.create_from_cloudformation_json); Batch
resources have no attributes, a job definition loses Timeout and PlatformCapabilities and has no update, "" becomes []
(`batch/models.py`, `batch/utils.py` lowercase_first_key); functions lose layers, log group and dead-letter queue
(`awslambda/models.py`); layers and log groups have no update; a change set does not publish exports
(`cloudformation/models.py`). State machines are mended by `sandbox.step_functions.machines`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from moto.awslambda.models import LambdaFunction, LayerVersion
from moto.batch import models as batch_models
from moto.cloudformation import models, parsing
from moto.cloudformation.exceptions import ValidationError
from moto.iam.models import iam_backends
from moto.logs.models import LogGroup
from moto.s3.models import FakeBucket

from sandbox import cloudformation_coverage, cloudformation_types, surroundings

BOOTSTRAP_STACK = "CDKToolkit"  # the CDK's own: roles, keys and rules that nothing here looks at


def install() -> None:
    """Mend moto's CloudFormation."""
    cloudformation_types.install()
    for cache in (parsing.get_model_list, parsing.get_model_map, parsing.get_name_type_map):
        cache.cache_clear()
    backend = models.CloudFormationBackend
    backend.create_stack = _checked(backend.create_stack)
    backend.update_stack = _checked(backend.update_stack)
    backend.create_change_set = _checked_change_set(backend.create_change_set)
    backend.execute_change_set = _publish_exports(backend.execute_change_set)
    _wrap(FakeBucket, create=_create_bucket, update=_update_bucket)
    _wrap(batch_models.ComputeEnvironment, create=_create_compute_environment)
    _wrap(batch_models.JobDefinition, create=_create_job_definition)
    batch_models.JobDefinition.update_from_cloudformation_json = classmethod(_update_job_definition)
    for model, attribute in (
        (batch_models.ComputeEnvironment, "ComputeEnvironmentArn"),
        (batch_models.JobQueue, "JobQueueArn"),
        (batch_models.JobDefinition, "JobDefinitionArn"),
    ):
        model.has_cfn_attr = classmethod(lambda cls, name, known=attribute: name == known)
        model.get_cfn_attribute = lambda self, name: self.arn
    _wrap(LambdaFunction, create=_create_function, update=_update_function)
    LayerVersion.physical_resource_id = property(lambda self: self.arn)
    LayerVersion.update_from_cloudformation_json = classmethod(_replace)
    LogGroup.update_from_cloudformation_json = classmethod(_update_log_group)


# ---- nothing in silence ----------------------------------------------------------------------------------------------
def _refuse_unknown(name: str, template: str) -> None:
    if name == BOOTSTRAP_STACK:
        return
    try:
        document = json.loads(template)
    except ValueError:
        raise ValidationError(
            name, message=f"Stack {name}: the sandbox reads templates in JSON, as the CDK writes them"
        ) from None
    if found := cloudformation_coverage.faults(document):
        raise ValidationError(name, message=f"Stack {name}: " + "; ".join(found))


def _checked(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def checked(self: Any, name: str, template: str, *args: Any, **kwargs: Any) -> Any:
        _refuse_unknown(name, template)
        return original(self, name, template, *args, **kwargs)

    return checked


def _checked_change_set(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def checked(self: Any, stack_name: str, change_set_name: str, template: str, *args: Any, **kwargs: Any) -> Any:
        _refuse_unknown(stack_name, template)
        return original(self, stack_name, change_set_name, template, *args, **kwargs)

    return checked


def _publish_exports(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def execute(self: Any, change_set_name: str, stack_name: str | None = None) -> None:
        change_set = self.describe_change_set(change_set_name)
        stack = self.stacks[change_set.stack_id]
        stack.resource_map.cross_stack_resources = self.exports
        original(self, change_set_name, stack_name)
        for export in stack.exports:
            self.exports[export.name] = export

    return execute


def _wrap(model: Any, *, create: Any, update: Any = None) -> None:
    """Replace the class methods of a model by functions that get the original first."""
    for name, function in (("create_from_cloudformation_json", create), ("update_from_cloudformation_json", update)):
        if function is not None:
            original = getattr(model, name)
            setattr(model, name, classmethod(functools.partial(_call, function, original)))


def _call(function: Any, original: Any, _cls: Any, *args: Any, **kwargs: Any) -> Any:
    return function(original, *args, **kwargs)


def _replace(
    cls: Any, /, original_resource: Any, new_resource_name: str, cloudformation_json: Any, **kwargs: Any
) -> Any:
    """An update by making a new one."""
    return cls.create_from_cloudformation_json(
        new_resource_name, cloudformation_json, kwargs["account_id"], kwargs["region_name"]
    )


def lower_keys(value: Any) -> Any:
    """CloudFormation's names to those of the API: the first letter lowered, all the way down."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: lower_keys(one) for key, one in value.items()}
    return [lower_keys(one) for one in value] if isinstance(value, list) else value


# ---- S3 --------------------------------------------------------------------------------------------------------------
def _create_bucket(
    original: Any, name: str, template: dict[str, Any], account_id: str, region_name: str, **more: Any
) -> Any:
    bucket = original(name, template, account_id, region_name, **more)
    _configure_bucket(bucket.name, template.get("Properties", {}))
    return bucket


def _update_bucket(original: Any, **arguments: Any) -> Any:
    properties = arguments["cloudformation_json"].setdefault("Properties", {})
    properties.setdefault("BucketName", arguments["original_resource"].name)
    bucket = original(**arguments)
    _configure_bucket(bucket.name, properties)
    return bucket


def _configure_bucket(name: str, properties: dict[str, Any]) -> None:
    s3 = surroundings.client("s3")
    if found := properties.get("VersioningConfiguration"):
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=found)
    if found := properties.get("PublicAccessBlockConfiguration"):
        s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=found)
    if found := properties.get("NotificationConfiguration"):
        if set(found) - {"EventBridgeConfiguration"}:
            raise ValidationError(
                name, message=f"Bucket {name}: the sandbox notifies EventBridge only, not {sorted(found)}"
            )
        if str(found["EventBridgeConfiguration"].get("EventBridgeEnabled", True)).lower() == "true":
            s3.put_bucket_notification_configuration(
                Bucket=name, NotificationConfiguration={"EventBridgeConfiguration": {}}
            )
    if found := properties.get("LifecycleConfiguration"):
        rules = [lifecycle_rule(rule) for rule in found["Rules"]]
        s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})


def lifecycle_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule as CloudFormation writes it, in the API's words."""
    rest = {key: value for key, value in rule.items() if key not in ("Id", "Status", "Prefix")}
    made: dict[str, Any] = {"Status": rule["Status"], "Filter": {"Prefix": rule.get("Prefix", "")}}
    if "Id" in rule:
        made["ID"] = rule["Id"]
    if days := rest.pop("ExpirationInDays", None):
        made["Expiration"] = {"Days": int(days)}
    if marker := rest.pop("ExpiredObjectDeleteMarker", None):
        made["Expiration"] = {"ExpiredObjectDeleteMarker": str(marker).lower() == "true"}
    for key in ("NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"):
        if value := rest.pop(key, None):
            made[key] = {name: int(number) for name, number in value.items()}
    if rest:
        raise ValueError(f"the sandbox knows no {sorted(rest)} in a lifecycle rule")
    return made


# ---- Batch -----------------------------------------------------------------------------------------------------------
def _create_compute_environment(
    original: Any, name: str, template: dict[str, Any], account_id: str, region_name: str, **more: Any
) -> Any:
    properties = template["Properties"]
    properties["Type"] = properties["Type"].upper()
    if "ServiceRole" not in properties:  # AWS uses the service-linked role then
        iam, wanted = iam_backends[account_id]["aws"], "AWSServiceRoleForBatch"
        found = next((role for role in iam.roles.values() if role.name == wanted), None)
        properties["ServiceRole"] = (found or iam.create_role(wanted, "{}", "/", None, "", [], 3600)).arn
    return original(name, template, account_id, region_name, **more)


def _create_job_definition(
    original: Any, name: str, template: dict[str, Any], account_id: str, region_name: str, **_: Any
) -> Any:
    del original
    properties = template["Properties"]
    container = lower_keys(properties["ContainerProperties"])
    options = properties["ContainerProperties"].get("LogConfiguration", {}).get("Options")
    if options:
        container["logConfiguration"]["options"] = dict(options)  # names of the log driver, not of the API
    return batch_models.batch_backends[account_id][region_name].register_job_definition(
        def_name=properties.get("JobDefinitionName", name),
        parameters=properties.get("Parameters", {}),
        _type=str(properties["Type"]).lower(),
        tags=properties.get("Tags", {}),
        retry_strategy=lower_keys(properties.get("RetryStrategy", {})),
        container_properties=container,
        node_properties=None,
        eks_properties=None,
        timeout=lower_keys(properties.get("Timeout", {})),
        platform_capabilities=properties.get("PlatformCapabilities"),
        propagate_tags=str(properties.get("PropagateTags", False)).lower() == "true",
    )


def _update_job_definition(cls: Any, /, original_resource: Any, new_resource_name: str, **more: Any) -> Any:
    """A new revision; CloudFormation deregisters the old one (R12)."""
    del new_resource_name
    new = cls.create_from_cloudformation_json(
        original_resource.name, more["cloudformation_json"], more["account_id"], more["region_name"]
    )
    original_resource.deregister()
    return new


# ---- Lambda and logs -------------------------------------------------------------------------------------------------
def _create_function(
    original: Any, name: str, template: dict[str, Any], account_id: str, region_name: str, **more: Any
) -> Any:
    function = original(name, template, account_id, region_name, **more)
    return _configure_function(function, template["Properties"])


def _update_function(original: Any, **arguments: Any) -> Any:
    return _configure_function(original(**arguments), arguments["cloudformation_json"]["Properties"])


def _configure_function(function: Any, properties: dict[str, Any]) -> Any:
    function.layers = function._get_layers_data(properties.get("Layers", []))
    function.dead_letter_arn = properties.get("DeadLetterConfig", {}).get("TargetArn")
    if group := properties.get("LoggingConfig", {}).get("LogGroup"):
        function.logs_group_name = group
    return function


def _update_log_group(cls: Any, /, original_resource: Any, cloudformation_json: dict[str, Any], **_: Any) -> Any:
    original_resource.retention_in_days = cloudformation_json["Properties"].get("RetentionInDays")
    return original_resource
