"""`cdk synth -c env=<env>`: the environment's name becomes settings, the settings become two stacks. No AWS call."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")  # works; the warning fills the screen

from aws_cdk import App, Validations
from constructs import Construct

from stacks.constructs.packaging import LayerError
from stacks.importer_stack import ImporterStack
from stacks.reimport_stack import ReimportStack
from stacks.settings import Settings, SettingsError, settings_for


def build(scope: Construct, settings: Settings) -> tuple[ImporterStack, ReimportStack]:
    """Create the stacks of one environment within an app or a stage."""
    importer = ImporterStack(scope, f"{settings.env}-{settings.project}-importer", settings=settings)
    reimport = ReimportStack(scope, f"{settings.env}-{settings.project}-reimport", settings=settings, importer=importer)
    return importer, reimport


def validate(app: App) -> None:
    """Let cdk-nag refuse what breaks its rules; synth without it when CDK_VALIDATION=false, as the sandbox does."""
    if os.environ.get("CDK_VALIDATION") != "false":
        from cdk_nag import AwsSolutionsChecks  # slow to load

        Validations.of(app).add_plugins(AwsSolutionsChecks(app))


def _is_cdks_own(key: str) -> bool:
    """Whether a context key is none of ours: a feature flag, or what the CDK's command line stores and hands over."""
    return ":" in key or "/" in key or key in ("cli-telemetry", "acknowledged-issue-numbers")


def main() -> None:
    """Synthesise the environment that `-c env=` names, with the other context values laid over its settings."""
    app = App()
    context = {key: value for key, value in app.node.get_all_context().items() if not _is_cdks_own(key)}
    try:
        build(app, settings_for(context.pop("env", None), context))
    except (SettingsError, LayerError) as error:
        sys.exit(f"longhaul: {error}")
    validate(app)
    app.synth()


if __name__ == "__main__":
    main()
