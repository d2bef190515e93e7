"""What differs between environments: values, checked at synth, so that a wrong one never reaches CloudFormation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

_T = TypeVar("_T")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_IMAGE = re.compile(r"[^\s:@]+(:\d+/[^\s:@]+)?(:[\w][\w.-]{0,127}|@sha256:[0-9a-f]{64})")
_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653)
_FARGATE_MEMORY_MIB: dict[float, tuple[int, ...]] = {  # vCPU → the memory that AWS Fargate offers with it
    0.25: (512, 1024, 2048),
    0.5: tuple(range(1024, 4096 + 1, 1024)),
    1: tuple(range(2048, 8192 + 1, 1024)),
    2: tuple(range(4096, 16384 + 1, 1024)),
    4: tuple(range(8192, 30720 + 1, 1024)),
    8: tuple(range(16384, 61440 + 1, 4096)),
    16: tuple(range(32768, 122880 + 1, 8192)),
}


class SettingsError(ValueError):
    """A setting that cannot be deployed; the message names it, its value and the rule."""


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise SettingsError(f"{name} is {value}: it must be in {low}..{high}")


@dataclass(frozen=True, kw_only=True)
class FargateSize:
    """CPU and memory of a job; only the pairs that Fargate offers exist (R5, case-C09)."""

    vcpu: float
    memory_mib: int

    def __post_init__(self) -> None:
        allowed = _FARGATE_MEMORY_MIB.get(self.vcpu)
        if allowed is None:
            offered = ", ".join(f"{vcpu:g}" for vcpu in _FARGATE_MEMORY_MIB)
            raise SettingsError(f"Fargate has no size of {self.vcpu:g} vCPU: it offers {offered}")
        if self.memory_mib not in allowed:
            raise SettingsError(
                f"Fargate does not offer {self.vcpu:g} vCPU with {self.memory_mib} MiB: "
                f"allowed memory in MiB is {', '.join(map(str, allowed))}"
            )


@dataclass(frozen=True, kw_only=True)
class CreatedNetwork:
    """A VPC of our own: private subnets behind NAT gateways, or isolated ones where nothing real runs."""

    nat_gateways: int  # 0 makes the subnets isolated: Fargate could not pull its image there
    flow_logs: bool


@dataclass(frozen=True, kw_only=True)
class GivenNetwork:
    """A VPC that exists. Its private subnets must reach S3, ECR, CloudWatch Logs, Secrets Manager and the warehouse."""

    vpc_id: str
    subnet_ids: tuple[str, ...]
    security_group_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CreatedWarehouse:
    """An Aurora Postgres cluster of our own (Serverless v2), in Aurora capacity units."""

    min_capacity: float
    max_capacity: float
    deletion_protection: bool


@dataclass(frozen=True, kw_only=True)
class GivenWarehouse:
    """A Postgres that exists, known by a secret with the keys host, port, username, password and dbname."""

    secret: str  # its complete ARN, or a bare name for one in the stack's own account and region
    secret_key_arn: str | None = None  # the customer key that encrypts the secret, if one does


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that the stacks of one environment are made from."""

    env: str
    project: str = "hawk"
    network: CreatedNetwork | GivenNetwork
    warehouse: CreatedWarehouse | GivenWarehouse
    image: str | None = None  # repository:tag or repository@digest; None builds longhaul/importer/Dockerfile
    logs_bucket_name: str | None = None  # None creates the bucket
    logs_bucket_key_arn: str | None = None  # customer KMS key of the logs bucket, given or created
    reimport_bucket_key_arn: str | None = None
    small: FargateSize = field(default_factory=lambda: FargateSize(vcpu=0.5, memory_mib=1024))
    full: FargateSize = field(default_factory=lambda: FargateSize(vcpu=1, memory_mib=2048))
    small_max_bytes: int = 10 << 20  # 0 switches the small size off
    ephemeral_storage_gib: int = 50
    attempt_timeout_seconds: int = 2 * 60 * 60
    max_vcpus: int = 64  # of each compute environment: two full caps of 32 full-size jobs
    log_retention_days: int = 90
    retain_logs: bool = False  # keep log groups when a stack is deleted

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.project) or len(self.project) > 20:
            raise SettingsError(
                f"project is {self.project!r}: it must be lower-case words joined by '-', at most 20 long"
            )
        if self.image is not None and not _IMAGE.fullmatch(self.image):
            raise SettingsError(f"image is {self.image!r}: it must be repository:tag or repository@sha256:digest")
        _within("small_max_bytes", self.small_max_bytes, 0, 5 << 40)
        _within("ephemeral_storage_gib", self.ephemeral_storage_gib, 21, 200)
        _within("attempt_timeout_seconds", self.attempt_timeout_seconds, 60, 14 * 24 * 60 * 60)
        _within("max_vcpus", self.max_vcpus, 1, 10_000)
        if self.log_retention_days not in _RETENTION_DAYS:
            offered = ", ".join(map(str, _RETENTION_DAYS))
            raise SettingsError(f"log_retention_days is {self.log_retention_days}: choose one of {offered}")

    @property
    def importer_name(self) -> str:
        """Name of the job definition and prefix of the queues' names (R4)."""
        return f"{self.env}-{self.project}-eval-log-importer"

    @property
    def reimport_name(self) -> str:
        """Name of the state machine and of the jobs that it submits (R1, R12)."""
        return f"{self.env}-{self.project}-eval-log-reimport"


ENVIRONMENTS: dict[str, Settings] = {
    "dev": Settings(
        env="dev",
        network=CreatedNetwork(nat_gateways=1, flow_logs=True),
        warehouse=CreatedWarehouse(min_capacity=0.5, max_capacity=4, deletion_protection=False),
        log_retention_days=30,
    ),
    "stg": Settings(
        env="stg",
        network=CreatedNetwork(nat_gateways=1, flow_logs=True),
        warehouse=CreatedWarehouse(min_capacity=0.5, max_capacity=16, deletion_protection=False),
    ),
    "prd": Settings(
        env="prd",
        network=CreatedNetwork(nat_gateways=2, flow_logs=True),
        warehouse=CreatedWarehouse(min_capacity=2, max_capacity=64, deletion_protection=True),
        log_retention_days=365,
        retain_logs=True,
    ),
    "sandbox": Settings(  # a local AWS endpoint: jobs are processes, so neither image nor network carries anything
        env="sandbox",
        network=CreatedNetwork(nat_gateways=0, flow_logs=False),
        warehouse=GivenWarehouse(secret="sandbox-warehouse"),  # noqa: S106 - the name of a secret
        image="longhaul-importer:sandbox",
        log_retention_days=7,
    ),
}


def settings_for(env: str | None, overrides: Mapping[str, object]) -> Settings:
    """The settings of environment `env`, with values from CDK context (`-c key=value`) laid over them.

    Raises SettingsError for an unknown environment or key and for a value that cannot be deployed.
    """
    if env not in ENVIRONMENTS:
        raise SettingsError(f"env is {env!r}: choose one of {', '.join(ENVIRONMENTS)} with -c env=<env>")
    unknown = sorted(set(overrides) - set(_OVERRIDES) - _GROUPED)
    if unknown:
        known = ", ".join(sorted({*_OVERRIDES, *_GROUPED}))
        raise SettingsError(f"{unknown[0]} is not a setting: the settings are {known}")
    plain: dict[str, Any] = {
        name: _parse(name, overrides[name], kind) for name, kind in _OVERRIDES.items() if name in overrides
    }
    settings = replace(ENVIRONMENTS[env], **plain)
    return _with_network(_with_warehouse(_with_sizes(settings, overrides), overrides), overrides)


_OVERRIDES: dict[str, Callable[[str], object]] = {
    "project": str,
    "image": str,
    "logs_bucket_name": str,
    "logs_bucket_key_arn": str,
    "reimport_bucket_key_arn": str,
    "small_max_bytes": int,
    "ephemeral_storage_gib": int,
    "attempt_timeout_seconds": int,
    "max_vcpus": int,
    "log_retention_days": int,
}
_GROUPED = frozenset(
    {
        *("small_vcpu", "small_memory_mib", "full_vcpu", "full_memory_mib"),
        *("vpc_id", "subnet_ids", "security_group_ids"),
        *("warehouse_secret_arn", "warehouse_secret_key_arn"),
    }
)


def _with_sizes(settings: Settings, overrides: Mapping[str, object]) -> Settings:
    def size(tier: str, default: FargateSize) -> FargateSize:
        return FargateSize(
            vcpu=_parse(f"{tier}_vcpu", overrides.get(f"{tier}_vcpu", default.vcpu), float),
            memory_mib=_parse(f"{tier}_memory_mib", overrides.get(f"{tier}_memory_mib", default.memory_mib), int),
        )

    return replace(settings, small=size("small", settings.small), full=size("full", settings.full))


def _with_warehouse(settings: Settings, overrides: Mapping[str, object]) -> Settings:
    if "warehouse_secret_arn" not in overrides:
        if "warehouse_secret_key_arn" in overrides:
            raise SettingsError("warehouse_secret_key_arn needs warehouse_secret_arn")
        return settings
    arn = str(overrides["warehouse_secret_arn"])
    if not re.fullmatch(r"arn:[\w-]+:secretsmanager:[\w-]+:\d{12}:secret:\S+-\w{6}", arn):
        raise SettingsError(
            f"warehouse_secret_arn is {arn!r}: it must be the complete ARN of a secret, suffix included"
        )
    key = overrides.get("warehouse_secret_key_arn")
    return replace(settings, warehouse=GivenWarehouse(secret=arn, secret_key_arn=None if key is None else str(key)))


def _with_network(settings: Settings, overrides: Mapping[str, object]) -> Settings:
    names = ("vpc_id", "subnet_ids", "security_group_ids")
    given = [name for name in names if name in overrides]
    if not given:
        return settings
    if len(given) < len(names):
        raise SettingsError(f"a given network needs all of {', '.join(names)}: there is only {', '.join(given)}")
    ids = {name: tuple(part.strip() for part in str(overrides[name]).split(",") if part.strip()) for name in names}
    for name, prefix, least in (("vpc_id", "vpc-", 1), ("subnet_ids", "subnet-", 2), ("security_group_ids", "sg-", 1)):
        if len(ids[name]) < least or not all(part.startswith(prefix) for part in ids[name]):
            raise SettingsError(
                f"{name} is {overrides[name]!r}: it must be {least} or more ids that begin with {prefix}"
            )
    network = GivenNetwork(
        vpc_id=ids["vpc_id"][0], subnet_ids=ids["subnet_ids"], security_group_ids=ids["security_group_ids"]
    )
    return replace(settings, network=network)


def _parse(name: str, value: object, kind: Callable[[str], _T]) -> _T:
    try:
        return kind(str(value))
    except ValueError as error:
        raise SettingsError(f"{name} is {value!r}: it must be a number") from error
