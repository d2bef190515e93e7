"""State machines: what moto keeps of them, tied to this package's executions, and how CloudFormation makes them.

AWS:
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-stepfunctions-statemachine.html
(the definition is a string, an object or in S3, with `${Name}` substitutions) and API_CreateStateMachine.html (a
definition is checked when it is created).
Gaps of moto 5.2.5: only DefinitionString is read, without substitutions; `Fn::GetAtt Arn` is unknown; logging and
tracing configuration are dropped; definitions are taken unread; a reset leaves executions at work.
"""

from __future__ import annotations

import json
import re
import weakref
from typing import Any

from moto.core.base_backend import BackendDict
from moto.core.exceptions import AWSError
from moto.s3.models import s3_backends
from moto.stepfunctions import models, responses
from moto.utilities.utils import get_partition

from sandbox.step_functions.api import ACTIONS, Actions
from sandbox.step_functions.definition import read
from sandbox.step_functions.places import Place
from sandbox.step_functions.store import Store

_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9_-]+)\}")


def install() -> None:
    for name in ACTIONS:
        setattr(responses.StepFunctionResponse, name, vars(Actions)[name])
    _tie_backend(models.StepFunctionBackend)
    _tie_reset(BackendDict)
    _tie_cloudformation(models.StateMachine)


def definition_text(properties: dict[str, Any], account: str, region: str) -> str:
    """The definition that a resource's properties give, placeholders filled in."""
    if "DefinitionString" in properties:
        text = properties["DefinitionString"]
    elif "Definition" in properties:
        text = json.dumps(properties["Definition"])
    else:
        place = properties["DefinitionS3Location"]
        found = s3_backends[account][get_partition(region)].get_object(
            place["Bucket"], place["Key"], place.get("Version")
        )
        if found is None:
            raise AWSError(f"No definition at s3://{place['Bucket']}/{place['Key']}", "ValidationException")
        text = found.value.decode()
    values = properties.get("DefinitionSubstitutions", {})
    return _PLACEHOLDER.sub(lambda match: _substitute(match, values), text)


def _substitute(match: re.Match[str], values: dict[str, Any]) -> str:
    """A value, escaped as within a JSON string; an unknown placeholder stays."""
    value = values.get(match[1])
    return match[0] if value is None else json.dumps(str(value), ensure_ascii=False)[1:-1]


def _tie_backend(backend: Any) -> None:
    made = backend.__init__
    create, update = backend.create_state_machine, backend.update_state_machine

    def __init__(self: Any, region_name: str, account_id: str) -> None:  # noqa: N807
        made(self, region_name, account_id)
        place = Place(account=account_id, region=region_name, partition=get_partition(region_name))
        self.sandbox_store = Store(place)
        _stores.add(self.sandbox_store)

    def create_state_machine(self: Any, name: str, definition: str, *args: Any, **more: Any) -> Any:
        read(definition)
        return create(self, name, definition, *args, **more)

    def update_state_machine(self: Any, arn: str, definition: str | None = None, *args: Any, **more: Any) -> Any:
        if definition is not None:
            read(definition)
        return update(self, arn, definition, *args, **more)

    def start_execution(self: Any, state_machine_arn: str, name: str | None, execution_input: str) -> Any:
        return self.sandbox_store.start(self.describe_state_machine(state_machine_arn), name, execution_input)

    backend.__init__ = __init__
    backend.create_state_machine, backend.update_state_machine = create_state_machine, update_state_machine
    backend.start_execution = start_execution


def _tie_reset(backends: Any) -> None:
    reset = backends.reset.__func__

    def forget_and_reset(cls: Any) -> None:
        """Let go before moto takes the lock that every look-up of a backend needs, an execution's own included."""
        for store in list(_stores):
            store.forget()
        reset(cls)

    backends.reset = classmethod(forget_and_reset)


def _tie_cloudformation(machine: Any) -> None:
    create, update = machine.create_from_cloudformation_json, machine.update_from_cloudformation_json
    attribute, has_attribute = machine.get_cfn_attribute, machine.has_cfn_attr

    def completed(template: dict[str, Any], account: str, region: str) -> dict[str, Any]:
        properties = template["Properties"]
        return {
            **template,
            "Properties": {**properties, "DefinitionString": definition_text(properties, account, region)},
        }

    def create_from_cloudformation_json(
        cls: Any, /, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **more: Any
    ) -> Any:
        return create(
            resource_name, completed(cloudformation_json, account_id, region_name), account_id, region_name, **more
        )

    def update_from_cloudformation_json(
        cls: Any,
        /,
        original_resource: Any,
        new_resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
    ) -> Any:
        template = completed(cloudformation_json, account_id, region_name)
        return update(original_resource, new_resource_name, template, account_id, region_name)

    machine.create_from_cloudformation_json = classmethod(create_from_cloudformation_json)
    machine.update_from_cloudformation_json = classmethod(update_from_cloudformation_json)
    machine.get_cfn_attribute = lambda self, name: self.arn if name == "Arn" else attribute(self, name)
    machine.has_cfn_attr = classmethod(lambda cls, name: name == "Arn" or has_attribute(name))
