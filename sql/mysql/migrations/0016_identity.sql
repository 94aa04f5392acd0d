-- Which message a task has (src/core/message/identity.h), and the task whose place on the ladder it continues. ADD
-- counts as done if the column already exists.
ALTER TABLE rung_tasks ADD COLUMN digest VARBINARY(16) NOT NULL DEFAULT '';

ALTER TABLE rung_tasks ADD COLUMN parent_id BIGINT NOT NULL DEFAULT 0;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at,
       CASE WHEN t.first_failed_at > '1970-01-01' THEN t.first_failed_at END AS first_failed_at, t.created_at,
       t.finished_at, t.finished_by, t.last_error, t.body_bytes, t.shard, n.name AS node,
       t.version, t.error_type, t.correlation_id, t.rule, t.uncounted_attempts, t.error_queue,
       CASE WHEN t.parent_id > 0 THEN t.parent_id END AS parent_id
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;
