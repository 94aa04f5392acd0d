-- Tasks on demand: a version for conditional changes, what silence means for one task, who handled an
-- attempt, who changed what by hand, and actions on many tasks. ADD cannot be repeated: the program treats
-- "already exists" as done.

ALTER TABLE rung_tasks
  ADD COLUMN version       INT UNSIGNED NOT NULL DEFAULT 1,
  ADD COLUMN silence_means ENUM('success','failure') NULL,
  ADD COLUMN silence_ms    BIGINT NULL,
  ADD COLUMN by_exchange   TINYINT NOT NULL DEFAULT 0,
  ADD INDEX by_tag (tag);

ALTER TABLE rung_attempts ADD COLUMN executor VARCHAR(255) NOT NULL DEFAULT '';

-- before_change and after_change: JSON objects of the changed fields.
CREATE TABLE IF NOT EXISTS rung_audit (
  id            BIGINT NOT NULL AUTO_INCREMENT,
  at            DATETIME(3) NOT NULL,
  who           VARCHAR(255) NOT NULL,
  what          VARCHAR(32) NOT NULL,
  task_id       BIGINT NOT NULL,
  before_change TEXT NOT NULL,
  after_change  TEXT NOT NULL,
  PRIMARY KEY (id),
  KEY by_task (task_id),
  KEY by_at (at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- An action on many tasks. Its ids are in rung_bulk_items from the start; last_id is its progress, next_at
-- the time at which its rate allows the next step.
CREATE TABLE IF NOT EXISTS rung_bulks (
  id           BIGINT NOT NULL AUTO_INCREMENT,
  action       ENUM('cancel','fire','redrive') NOT NULL,
  state        ENUM('running','paused','aborted','done') NOT NULL,
  filter       TEXT NOT NULL,
  reason       TEXT NOT NULL,
  queue        VARCHAR(255) NOT NULL DEFAULT '',
  exchange     VARCHAR(255) NOT NULL DEFAULT '',
  routing_key  VARCHAR(255) NOT NULL DEFAULT '',
  rate         DOUBLE NOT NULL DEFAULT 0,
  who          VARCHAR(255) NOT NULL,
  total        BIGINT NOT NULL DEFAULT 0,
  done         BIGINT NOT NULL DEFAULT 0,
  applied      BIGINT NOT NULL DEFAULT 0,
  refused      BIGINT NOT NULL DEFAULT 0,
  last_id      BIGINT NOT NULL DEFAULT 0,
  next_at      DATETIME(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  created_at   DATETIME(3) NOT NULL,
  finished_at  DATETIME(3) NULL,
  runner       VARCHAR(255) NOT NULL DEFAULT '',
  runner_until DATETIME(3) NULL,
  PRIMARY KEY (id),
  KEY by_state (state)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS rung_bulk_items (
  bulk_id BIGINT NOT NULL,
  task_id BIGINT NOT NULL,
  PRIMARY KEY (bulk_id, task_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The views of 0002 with the new columns appended. A task that never failed has no first_failed_at (by CASE:
-- MySQL 8 turns the result of NULLIF into text).
CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at,
       CASE WHEN t.first_failed_at > '1970-01-01' THEN t.first_failed_at END AS first_failed_at, t.created_at,
       t.finished_at, t.finished_by, t.last_error, t.body_bytes, t.shard, n.name AS node,
       t.version, t.error_type
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_history AS
SELECT a.task_id AS retry_id, t.queue, t.message_id, a.attempt, a.level, a.due_at, a.published_at,
       TIMESTAMPDIFF(MICROSECOND, a.due_at, a.published_at) DIV 1000 AS late_ms,
       a.outcome, a.outcome_at, a.error, n.name AS node, a.executor
FROM rung_attempts a
JOIN rung_tasks t ON t.id = a.task_id
LEFT JOIN rung_nodes n ON n.id = a.node;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_audit AS
SELECT id AS audit_id, at, who, what, task_id AS retry_id, before_change, after_change FROM rung_audit;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_bulks AS
SELECT id AS bulk_id, action, state, filter, reason, queue, exchange, routing_key, rate, who, total, done, applied,
       refused, created_at, finished_at, runner
FROM rung_bulks;
