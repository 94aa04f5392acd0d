-- Causes of failures (src/store/causes.h). cause_id: of the last failure; NULL: it has not failed, or its row is older
-- than causes and has not been given one yet. ADD counts as done if the column or the index already exists.
ALTER TABLE rung_tasks ADD COLUMN cause_id CHAR(12) CHARACTER SET ascii COLLATE ascii_bin NULL;

-- Changes only with the cause, not with each step of a task.
ALTER TABLE rung_tasks ADD INDEX by_cause (cause_id);

-- version: of the rule that made the id. ignored_rate: failures of the hour before it was ignored.
CREATE TABLE IF NOT EXISTS rung_causes (
  cause_id     CHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  queue        VARCHAR(255) NOT NULL,
  error_type   VARCHAR(255) NOT NULL,
  sample       TEXT NOT NULL,
  version      SMALLINT UNSIGNED NOT NULL,
  first_seen   DATETIME(3) NOT NULL,
  last_seen    DATETIME(3) NOT NULL,
  scheduled    BIGINT NOT NULL DEFAULT 0,
  parked       BIGINT NOT NULL DEFAULT 0,
  succeeded    BIGINT NOT NULL DEFAULT 0,
  total        BIGINT NOT NULL DEFAULT 0,
  state        ENUM('new','known','working','ignored') NOT NULL DEFAULT 'new',
  owner        VARCHAR(255) NOT NULL DEFAULT '',
  note         TEXT NULL,
  link         VARCHAR(1000) NOT NULL DEFAULT '',
  ignored_rate BIGINT NOT NULL DEFAULT 0,
  worse_at     DATETIME(3) NULL,
  PRIMARY KEY (cause_id),
  KEY by_queue (queue)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- How a transaction changed the counts of a cause. Rows are added here, and every second to rung_causes: otherwise all
-- transactions with tasks of one cause would wait for its row. The view adds what has not been added yet.
CREATE TABLE IF NOT EXISTS rung_cause_changes (
  id        BIGINT NOT NULL AUTO_INCREMENT,
  cause_id  CHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  at        DATETIME(3) NOT NULL,
  scheduled BIGINT NOT NULL,
  parked    BIGINT NOT NULL,
  succeeded BIGINT NOT NULL,
  total     BIGINT NOT NULL,
  failures  BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Failures of five minutes. Kept for a day.
CREATE TABLE IF NOT EXISTS rung_cause_rates (
  cause_id CHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  since    DATETIME(3) NOT NULL,
  failures BIGINT NOT NULL,
  PRIMARY KEY (cause_id, since),
  KEY by_since (since, cause_id, failures)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_causes AS
SELECT c.cause_id, c.queue, c.error_type, c.sample, c.first_seen,
       GREATEST(c.last_seen, COALESCE(d.last_seen, c.last_seen)) AS last_seen,
       CAST(c.scheduled + COALESCE(d.scheduled, 0) AS SIGNED) AS scheduled,
       CAST(c.parked + COALESCE(d.parked, 0) AS SIGNED) AS parked,
       CAST(c.succeeded + COALESCE(d.succeeded, 0) AS SIGNED) AS succeeded,
       CAST(c.total + COALESCE(d.total, 0) AS SIGNED) AS total,
       CAST(COALESCE(r.failures, 0) + COALESCE(d.failures, 0) AS SIGNED) AS last_hour,
       c.state, c.owner, c.note, c.link, c.worse_at
FROM rung_causes c
LEFT JOIN (
  SELECT cause_id, MAX(CASE WHEN failures > 0 THEN at END) AS last_seen, SUM(scheduled) AS scheduled,
         SUM(parked) AS parked, SUM(succeeded) AS succeeded, SUM(total) AS total, SUM(failures) AS failures
  FROM rung_cause_changes
  GROUP BY cause_id
) d ON d.cause_id = c.cause_id
LEFT JOIN (
  SELECT cause_id, SUM(failures) AS failures
  FROM rung_cause_rates
  WHERE since > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR
  GROUP BY cause_id
) r ON r.cause_id = c.cause_id;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at,
       CASE WHEN t.first_failed_at > '1970-01-01' THEN t.first_failed_at END AS first_failed_at, t.created_at,
       t.finished_at, t.finished_by, t.last_error, t.body_bytes, t.shard, n.name AS node,
       t.version, t.error_type, t.correlation_id, t.rule, t.uncounted_attempts, t.error_queue,
       CASE WHEN t.parent_id > 0 THEN t.parent_id END AS parent_id,
       CASE WHEN t.state = 'awaiting' THEN t.next_at END AS silence_ends_at, t.silence_means, t.silence_ms,
       t.max_attempts, t.ladder_pinned, t.by_exchange, t.cause_id
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;
