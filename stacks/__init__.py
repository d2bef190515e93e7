"""The CDK stacks: what is deployed, from settings that differ between environments by values only."""
