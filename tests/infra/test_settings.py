"""Settings: what is refused, and how clearly. R5, case-C09."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from stacks.settings import (
    ENVIRONMENTS,
    FargateSize,
    GivenNetwork,
    GivenWarehouse,
    Settings,
    SettingsError,
    settings_for,
)

SECRET = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:warehouse-AbCdEf"
NETWORK = {"vpc_id": "vpc-1", "subnet_ids": "subnet-1,subnet-2", "security_group_ids": "sg-1"}


def test_environments_differ_by_values_only() -> None:
    assert list(ENVIRONMENTS) == ["dev", "stg", "prd", "sandbox"]
    for name, settings in ENVIRONMENTS.items():
        assert settings_for(name, {}) == settings
        assert settings.env == name
    with pytest.raises(FrozenInstanceError):
        ENVIRONMENTS["dev"].project = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"log_bucket_name": "x"}, "log_bucket_name is not a setting: the settings are .*logs_bucket_name"),
        ({"network": "x"}, "network is not a setting"),
        ({"project": "Hawk"}, "project is 'Hawk': .*lower-case"),
        ({"project": "h" * 21}, "at most 20"),
        ({"small_max_bytes": "10MiB"}, "small_max_bytes is '10MiB': it must be a number"),
        ({"small_max_bytes": "-1"}, r"small_max_bytes is -1: it must be in 0\.\."),
        ({"ephemeral_storage_gib": "20"}, r"ephemeral_storage_gib is 20: it must be in 21\.\.200"),
        ({"ephemeral_storage_gib": "201"}, r"ephemeral_storage_gib is 201: it must be in 21\.\.200"),
        ({"attempt_timeout_seconds": "59"}, "attempt_timeout_seconds is 59"),
        ({"max_vcpus": "0"}, "max_vcpus is 0"),
        ({"log_retention_days": "31"}, "log_retention_days is 31: choose one of 1, 3"),
        ({"image": "importer"}, "image is 'importer': it must be repository:tag"),
        ({"image": "importer:"}, "image is 'importer:'"),
        ({"vpc_id": "vpc-1"}, "a given network needs all of vpc_id, subnet_ids, security_group_ids"),
        ({**NETWORK, "subnet_ids": "subnet-1"}, "subnet_ids is 'subnet-1': it must be 2 or more ids"),
        ({**NETWORK, "security_group_ids": "default"}, "security_group_ids is 'default'"),
        ({"warehouse_secret_arn": "warehouse"}, "warehouse_secret_arn is 'warehouse': it must be the complete ARN"),
        ({"warehouse_secret_key_arn": "arn"}, "warehouse_secret_key_arn needs warehouse_secret_arn"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_name_value_and_rule(overrides: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        settings_for("dev", overrides)


@pytest.mark.parametrize("env", [None, "prod", ""])
def test_an_unknown_environment_is_refused(env: str | None) -> None:
    with pytest.raises(SettingsError, match="choose one of dev, stg, prd, sandbox with -c env=<env>"):
        settings_for(env, {})


def test_c09_an_impossible_fargate_size_names_the_allowed_memory() -> None:
    with pytest.raises(SettingsError, match=r"4 vCPU with 1024 MiB: allowed memory in MiB is 8192, 9216, .*30720$"):
        settings_for("dev", {"full_vcpu": "4", "full_memory_mib": "1024"})
    with pytest.raises(SettingsError, match=r"no size of 3 vCPU: it offers 0\.25, 0\.5, 1, 2, 4, 8, 16$"):
        settings_for("dev", {"small_vcpu": "3"})


@pytest.mark.parametrize(
    ("vcpu", "memory_mib", "offered"),
    [
        (0.25, 512, True),
        (0.25, 3072, False),
        (0.5, 1024, True),
        (0.5, 512, False),
        (0.5, 5120, False),
        (1, 2048, True),
        (1, 1024, False),
        (2, 4096, True),
        (2, 16384, True),
        (2, 4097, False),
        (4, 30720, True),
        (4, 31744, False),
        (8, 20480, True),
        (8, 17408, False),
        (16, 122880, True),
        (16, 36864, False),
    ],
)
def test_r5_sizes_that_fargate_offers(vcpu: float, memory_mib: int, offered: bool) -> None:
    if offered:
        assert FargateSize(vcpu=vcpu, memory_mib=memory_mib).memory_mib == memory_mib
    else:
        with pytest.raises(SettingsError):
            FargateSize(vcpu=vcpu, memory_mib=memory_mib)


def test_context_values_are_laid_over_those_of_the_environment() -> None:
    overrides: dict[str, Any] = {
        "project": "orca",
        "small_max_bytes": 0,
        "small_vcpu": "1",
        "small_memory_mib": 2048,
        "warehouse_secret_arn": SECRET,
        "warehouse_secret_key_arn": "arn:aws:kms:eu-west-1:111122223333:key/1",
        "image": "registry.example:5000/team/importer@sha256:" + "a" * 64,
        **NETWORK,
    }
    settings = settings_for("prd", overrides)
    changed = {f.name for f in fields(Settings) if getattr(settings, f.name) != getattr(ENVIRONMENTS["prd"], f.name)}
    assert changed == {"project", "small_max_bytes", "small", "warehouse", "image", "network"}
    assert settings.importer_name == "prd-orca-eval-log-importer"
    assert settings.reimport_name == "prd-orca-eval-log-reimport"
    assert settings.small == FargateSize(vcpu=1, memory_mib=2048)
    assert settings.full == FargateSize(vcpu=1, memory_mib=2048)
    assert settings.network == GivenNetwork(
        vpc_id="vpc-1", subnet_ids=("subnet-1", "subnet-2"), security_group_ids=("sg-1",)
    )
    assert isinstance(settings.warehouse, GivenWarehouse)
    assert settings.warehouse.secret == SECRET
