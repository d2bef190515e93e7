"""The first schema: evals, samples, scores, messages, models, roles, logs with their samples, import runs.

Keys are the logs' own (eval id, sample uuid), so that two warehouses fed with the same logs are equal row by row (W1).
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

DDL = """
CREATE TABLE eval (
    id                    text PRIMARY KEY,
    location              text NOT NULL,          -- the log that this row was read from
    eval_set_id           text,
    run_id                text,
    task_id               text,
    task_name             text NOT NULL,
    task_version          text,
    task_display_name     text,
    task_args             jsonb,
    status                text NOT NULL,
    invalidated           boolean NOT NULL,
    error_message         text,
    error_traceback       text,
    model                 text NOT NULL,
    model_args            jsonb,
    model_generate_config jsonb,
    model_base_url        text,
    model_usage           jsonb,
    agent                 text,                   -- the solver, or the plan's steps joined by commas
    solver                text,
    solver_args           jsonb,
    plan                  jsonb,
    config                jsonb,
    dataset_name          text,
    dataset_location      text,
    dataset_samples       bigint,
    results               jsonb,
    tags                  jsonb,                  -- as edited last
    metadata              jsonb,                  -- as edited last
    revision              jsonb,
    packages              jsonb,
    epochs                bigint,
    total_samples         bigint,                 -- what the header claims
    completed_samples     bigint,                 -- what the header claims
    sample_count          bigint NOT NULL,        -- samples found in the log
    errored_sample_count  bigint NOT NULL,
    created_at            timestamptz,
    started_at            timestamptz,
    completed_at          timestamptz,
    updated_at            timestamptz,            -- last edit that the header records
    file_size_bytes       bigint NOT NULL,
    etag                  text NOT NULL,
    file_last_modified    timestamptz,
    importer_version      text NOT NULL,
    first_imported_at     timestamptz NOT NULL DEFAULT now(),
    last_imported_at      timestamptz NOT NULL DEFAULT now()  -- last import that changed this row
);
CREATE INDEX eval_set_id_idx ON eval (eval_set_id);
CREATE INDEX eval_location_idx ON eval (location);

CREATE TABLE sample (
    uuid                     text PRIMARY KEY,
    eval_id                  text NOT NULL REFERENCES eval,
    location                 text NOT NULL,       -- the log that owns this sample (W5)
    id                       text NOT NULL,
    epoch                    integer NOT NULL,
    input                    jsonb,
    choices                  jsonb,
    target                   jsonb,
    output                   jsonb,
    metadata                 jsonb,
    model_usage              jsonb,
    input_tokens             bigint,
    output_tokens            bigint,
    total_tokens             bigint,
    reasoning_tokens         bigint,
    input_tokens_cache_read  bigint,
    input_tokens_cache_write bigint,
    message_count            integer NOT NULL,
    action_count             integer NOT NULL,    -- tool calls that ran
    generation_count         integer NOT NULL,    -- calls of a model
    generation_seconds       double precision NOT NULL,
    started_at               timestamptz,
    completed_at             timestamptz,
    total_seconds            double precision,
    working_seconds          double precision,
    error_message            text,
    error_traceback          text,
    error_retries            integer NOT NULL,
    limit_type               text,
    limit_value              double precision,
    limit_reason             text,
    turn_count               integer,
    invalidation             jsonb,
    UNIQUE (eval_id, id, epoch) DEFERRABLE INITIALLY IMMEDIATE  -- two samples of a log may swap their ids
);
CREATE INDEX sample_location_idx ON sample (location);

CREATE TABLE score (
    sample_uuid text NOT NULL REFERENCES sample ON DELETE CASCADE,
    scorer      text NOT NULL,
    ordinal     integer NOT NULL,                 -- 0 is the final score, 1… the intermediate ones in their order
    value       jsonb,                            -- "NaN", "Infinity", "-Infinity" stand for those numbers
    value_float double precision,
    answer      text,
    explanation text,
    reason      text,
    metadata    jsonb,
    is_intermediate boolean NOT NULL GENERATED ALWAYS AS (ordinal > 0) STORED,
    PRIMARY KEY (sample_uuid, scorer, ordinal)
);

CREATE TABLE message (
    sample_uuid        text NOT NULL REFERENCES sample ON DELETE CASCADE,
    ordinal            integer NOT NULL,
    message_id         text,
    role               text NOT NULL,
    source             text,
    text               text,
    reasoning          text,
    model              text,
    tool_calls         jsonb,
    tool_call_id       text,
    tool_function      text,
    tool_error_type    text,
    tool_error_message text,
    metadata           jsonb,
    PRIMARY KEY (sample_uuid, ordinal)
);

CREATE TABLE sample_model (
    sample_uuid              text NOT NULL REFERENCES sample ON DELETE CASCADE,
    model                    text NOT NULL,
    input_tokens             bigint,
    output_tokens            bigint,
    total_tokens             bigint,
    reasoning_tokens         bigint,
    input_tokens_cache_read  bigint,
    input_tokens_cache_write bigint,
    PRIMARY KEY (sample_uuid, model)
);

CREATE TABLE model_role (
    eval_id  text NOT NULL REFERENCES eval ON DELETE CASCADE,
    role     text NOT NULL,
    ordinal  integer NOT NULL,                    -- a role can be bound to several models
    model    text NOT NULL,
    base_url text,
    args     jsonb,
    config   jsonb,
    PRIMARY KEY (eval_id, role, ordinal)
);

-- What each log holds, so that ownership (W5) and what is gone (W1) can be decided without reading other logs again.
CREATE TABLE log (
    location          text PRIMARY KEY,           -- s3://bucket/key, or file:///path
    eval_id           text NOT NULL,
    etag              text NOT NULL,
    file_size_bytes   bigint NOT NULL,
    created_at        timestamptz,
    updated_at        timestamptz,
    with_messages     boolean NOT NULL
);
CREATE INDEX log_eval_id_idx ON log (eval_id);
CREATE TABLE log_sample (
    location     text NOT NULL REFERENCES log ON DELETE CASCADE,
    sample_uuid  text NOT NULL,
    eval_id      text NOT NULL,
    id           text NOT NULL,
    epoch        integer NOT NULL,
    completed_at timestamptz,
    PRIMARY KEY (location, sample_uuid)
);
CREATE INDEX log_sample_uuid_idx ON log_sample (sample_uuid);
CREATE INDEX log_sample_eval_id_idx ON log_sample (eval_id, id, epoch);

-- Claims with what decides between them (W5); a greater tuple wins.
CREATE VIEW claim AS
SELECT c.location, c.sample_uuid, c.eval_id, c.id, c.epoch,
       coalesce(c.completed_at, '-infinity') AS completed_at,
       coalesce(l.updated_at, '-infinity')   AS updated_at,
       coalesce(l.created_at, '-infinity')   AS created_at
FROM log_sample c JOIN log l USING (location);

-- The same for the samples that the warehouse shows now.
CREATE VIEW held_sample AS
SELECT s.uuid, s.eval_id, s.id, s.epoch, c.location, c.completed_at, c.updated_at, c.created_at
FROM sample s JOIN claim c ON c.location = s.location AND c.sample_uuid = s.uuid;

-- Logs to import again (W1): they hold a sample, or are the newest log of an eval, that the warehouse shows otherwise.
CREATE VIEW stale_log AS
SELECT c.location, c.sample_uuid
FROM claim c
WHERE NOT EXISTS (
        SELECT FROM held_sample h
        WHERE h.uuid = c.sample_uuid
          AND (h.completed_at, h.updated_at, h.created_at, h.location COLLATE "C")
              >= (c.completed_at, c.updated_at, c.created_at, c.location COLLATE "C"))
  AND NOT EXISTS (
        SELECT FROM held_sample h
        WHERE (h.eval_id, h.id, h.epoch) = (c.eval_id, c.id, c.epoch)
          AND (h.completed_at, h.updated_at, h.created_at, h.location COLLATE "C")
              >= (c.completed_at, c.updated_at, c.created_at, c.location COLLATE "C"))
UNION ALL
SELECT l.location, NULL
FROM log l JOIN eval e ON e.id = l.eval_id
WHERE e.location <> l.location
  AND NOT EXISTS (
        SELECT FROM log o
        WHERE o.eval_id = l.eval_id
          AND (coalesce(o.updated_at, '-infinity'), coalesce(o.created_at, '-infinity'), o.location COLLATE "C")
              > (coalesce(l.updated_at, '-infinity'), coalesce(l.created_at, '-infinity'), l.location COLLATE "C"));

-- One row per attempt, never changed afterwards, kept when the attempt failed.
CREATE TABLE import_run (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    location          text NOT NULL,
    eval_id           text,
    etag              text,
    file_size_bytes   bigint,
    importer_version  text NOT NULL,
    forced            boolean NOT NULL,
    with_messages     boolean NOT NULL,
    outcome           text NOT NULL,              -- imported, unchanged, or the failure's class
    exit_code         integer NOT NULL,
    reason            text,
    samples           bigint,
    scores            bigint,
    messages          bigint,
    rows_changed      bigint,
    stale_logs        jsonb,
    batch_job_id      text,
    batch_attempt     integer,
    started_at        timestamptz NOT NULL,
    seconds           double precision NOT NULL,
    peak_memory_bytes bigint NOT NULL
);
CREATE INDEX import_run_location_idx ON import_run (location, started_at);
"""

TABLES = "import_run, log_sample, log, model_role, sample_model, message, score, sample, eval"


def upgrade() -> None:
    """Create every table."""
    op.execute(DDL)


def downgrade() -> None:
    """Drop everything."""
    op.execute("DROP VIEW stale_log, held_sample, claim")
    op.execute(f"DROP TABLE {TABLES}")
