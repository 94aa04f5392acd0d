-- Rules by kind of failure, and limits on retries. rule: which rule decided at the last failure, and after each
-- attempt. uncounted_*: what limits do not count (src/core/task/task.h). rule_headers: a JSON object with the headers
-- that rules name. New columns have defaults: no row is rewritten. ADD counts as done if the column already exists.
ALTER TABLE rung_tasks
  ADD COLUMN rule               VARCHAR(255) NOT NULL DEFAULT '',
  ADD COLUMN uncounted_attempts INT NOT NULL DEFAULT 0,
  ADD COLUMN uncounted_ms       BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN moved_from         VARCHAR(255) NOT NULL DEFAULT '',
  ADD COLUMN rule_headers       TEXT NULL;

ALTER TABLE rung_attempts ADD COLUMN rule VARCHAR(255) NOT NULL DEFAULT '';

-- The views of 0008 and 0006 with the new columns appended.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at,
       CASE WHEN t.first_failed_at > '1970-01-01' THEN t.first_failed_at END AS first_failed_at, t.created_at,
       t.finished_at, t.finished_by, t.last_error, t.body_bytes, t.shard, n.name AS node,
       t.version, t.error_type, t.correlation_id, t.rule, t.uncounted_attempts
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_history AS
SELECT a.task_id AS retry_id, t.queue, t.message_id, a.attempt, a.level, a.due_at,
       CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END AS published_at,
       TIMESTAMPDIFF(MICROSECOND, a.due_at, CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END) DIV 1000
         AS late_ms,
       a.outcome, a.outcome_at, a.error, n.name AS node, a.executor, a.rule
FROM rung_attempts a
JOIN rung_tasks t ON t.id = a.task_id
LEFT JOIN rung_nodes n ON n.id = a.node;
