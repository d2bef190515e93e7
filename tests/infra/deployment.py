"""The synthesised stacks as CloudFormation would see them: names resolved, imports followed, questions answered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

REGION, ACCOUNT, PARTITION = "eu-west-1", "111122223333", "aws"
_PSEUDO = {
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": PARTITION,
    "AWS::URLSuffix": "amazonaws.com",
}


def arn(service: str, resource: str, *, regional: bool = True) -> str:
    """An ARN in the account and region that the templates are resolved for."""
    return f"arn:{PARTITION}:{service}:{REGION if regional else ''}:{ACCOUNT if regional else ''}:{resource}"


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One resource with its properties resolved."""

    id: str
    type: str
    properties: dict[str, Any]
    identity: str  # what Ref returns
    raw: dict[str, Any]


class Deployment:
    """The stacks of one environment, read from a cloud assembly."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = sorted(folder.rglob("*.template.json"))
        self.templates = {path.name.removesuffix(".template.json"): json.loads(path.read_text()) for path in found}

    @cached_property
    def resources(self) -> list[Resource]:
        """Every resource of every stack."""
        return [
            Resource(
                id=name,
                type=body["Type"],
                properties=self._resolve(body.get("Properties", {}), template),
                identity=self._resolve({"Ref": name}, template),
                raw=body,
            )
            for template in self.templates.values()
            for name, body in template["Resources"].items()
        ]

    def of_type(self, type_: str) -> list[Resource]:
        """Resources of a type such as AWS::S3::Bucket."""
        return [resource for resource in self.resources if resource.type == type_]

    def the(self, type_: str, **properties: Any) -> Resource:
        """The only resource of a type that has these properties."""
        (found,) = [r for r in self.of_type(type_) if properties.items() <= r.properties.items()]
        return found

    def outputs(self, stack: str) -> dict[str, str]:
        """Outputs of a stack without those that are only there for the other stack."""
        template = self.templates[stack]
        declared = template.get("Outputs", {}).items()
        return {name: self._resolve(out["Value"], template) for name, out in declared if "Export" not in out}

    def function(self, handler: str) -> Resource:
        """The Lambda function made of lambdas/<handler>."""
        functions = self.of_type("AWS::Lambda::Function")
        (found,) = [
            f for f in functions if f.properties["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] == handler
        ]
        return found

    def statements_of(self, role_arn: str) -> list[dict[str, Any]]:
        """Every statement of every policy that is attached to a role."""
        (role,) = [r for r in self.of_type("AWS::IAM::Role") if self._attribute(r.type, r.id, "Arn", r.raw) == role_arn]
        assert not role.properties.get("ManagedPolicyArns")
        documents = [policy["PolicyDocument"] for policy in role.properties.get("Policies", [])]
        attached = [p for p in self.of_type("AWS::IAM::Policy") if role.identity in p.properties["Roles"]]
        documents += [policy.properties["PolicyDocument"] for policy in attached]
        return [statement for document in documents for statement in document["Statement"]]

    def grants_of(self, role_arn: str) -> set[tuple[str, str, str]]:
        """What a role may do, as (action, resource, condition as JSON or '')."""
        grants = set()
        for statement in self.statements_of(role_arn):
            assert statement["Effect"] == "Allow"
            condition = json.dumps(statement["Condition"]) if "Condition" in statement else ""
            for action in _listed(statement["Action"]):
                grants |= {(action, resource, condition) for resource in _listed(statement["Resource"])}
        return grants

    def _resolve(self, value: Any, template: dict[str, Any]) -> Any:
        match value:
            case {"Ref": name} if name in _PSEUDO:
                return _PSEUDO[name]
            case {"Ref": name} if name in template["Resources"]:
                return self._reference(template["Resources"][name], name, template)
            case {"Ref": name}:
                return f"parameter-{name}"
            case {"Fn::GetAtt": [name, attribute]}:
                resource = template["Resources"][name]
                return self._attribute(resource["Type"], name, attribute, resource)
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self._resolve(part, template) for part in parts)
            case {"Fn::Sub": str(text)}:
                for name, pseudo in _PSEUDO.items():
                    text = text.replace(f"${{{name}}}", pseudo)
                return text
            case {"Fn::ImportValue": name}:
                return self._imported(name)
            case {"Fn::Select": [index, listed]}:
                return self._resolve(listed, template)[int(index)]
            case {"Fn::GetAZs": _}:
                return [f"{REGION}{zone}" for zone in "abc"]
            case dict():
                return {key: self._resolve(item, template) for key, item in value.items()}
            case list():
                return [self._resolve(item, template) for item in value]
        return value

    def _imported(self, name: str) -> Any:
        for template in self.templates.values():
            for output in template.get("Outputs", {}).values():
                if output.get("Export", {}).get("Name") == name:
                    return self._resolve(output["Value"], template)
        raise AssertionError(f"nothing exports {name}")

    def _reference(self, resource: dict[str, Any], name: str, template: dict[str, Any]) -> str:
        by_type = {
            "AWS::S3::Bucket": lambda: f"bucket-{name.lower()}",
            "AWS::StepFunctions::StateMachine": lambda: self._attribute(resource["Type"], name, "Arn", resource),
            "AWS::Batch::JobQueue": lambda: self._attribute(resource["Type"], name, "JobQueueArn", resource),
            "AWS::SQS::Queue": lambda: f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}",
        }
        return by_type.get(resource["Type"], lambda: name)()

    @staticmethod
    def _attribute(type_: str, name: str, attribute: str, resource: dict[str, Any]) -> str:
        properties = resource.get("Properties", {})
        match type_, attribute:
            case "AWS::S3::Bucket", "Arn":
                return f"arn:{PARTITION}:s3:::bucket-{name.lower()}"
            case "AWS::SQS::Queue", "Arn":
                return arn("sqs", name)
            case "AWS::Batch::JobQueue", "JobQueueArn":
                return arn("batch", f"job-queue/{properties['JobQueueName']}")
            case "AWS::StepFunctions::StateMachine", "Arn":
                return arn("states", f"stateMachine:{properties['StateMachineName']}")
            case "AWS::Lambda::Function", "Arn":
                return arn("lambda", f"function:{name}")
            case "AWS::IAM::Role", "Arn":
                return f"arn:{PARTITION}:iam::{ACCOUNT}:role/{name}"
            case "AWS::Logs::LogGroup", "Arn":
                return arn("logs", f"log-group:{name}:*")
        return f"{name}.{attribute}"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
