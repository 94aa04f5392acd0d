-- Search for tasks by the property correlation_id, and by the values of the headers that `index_headers` of
-- the config names. rung_task_headers has rows only for messages with such a header.
ALTER TABLE rung_tasks ADD COLUMN correlation_id VARCHAR(255) NULL;

ALTER TABLE rung_tasks ADD INDEX by_correlation (correlation_id);

CREATE TABLE IF NOT EXISTS rung_task_headers (
  task_id BIGINT NOT NULL,
  name    VARCHAR(128) NOT NULL,
  value   VARCHAR(255) NOT NULL,
  PRIMARY KEY (task_id, name),
  KEY by_value (name, value, task_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

ALTER TABLE rung_bulks MODIFY action ENUM('cancel','fire','redrive','discard') NOT NULL;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at,
       CASE WHEN t.first_failed_at > '1970-01-01' THEN t.first_failed_at END AS first_failed_at, t.created_at,
       t.finished_at, t.finished_by, t.last_error, t.body_bytes, t.shard, n.name AS node,
       t.version, t.error_type, t.correlation_id
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;
