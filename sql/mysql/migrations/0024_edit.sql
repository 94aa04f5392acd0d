-- The task that has replaced a parked one: its edited copy, whose parent_id says the same (src/core/machine/edit.h). A
-- consumer's message has a parent_id too, and replaces nothing. ADD counts as done if the column already exists.
ALTER TABLE rung_tasks ADD COLUMN replaced_by BIGINT NOT NULL DEFAULT 0;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at,
       CASE WHEN t.first_failed_at > '1970-01-01' THEN t.first_failed_at END AS first_failed_at, t.created_at,
       t.finished_at, t.finished_by, t.last_error, t.body_bytes, t.shard, n.name AS node,
       t.version, t.error_type, t.correlation_id, t.rule, t.uncounted_attempts, t.error_queue,
       CASE WHEN t.parent_id > 0 THEN t.parent_id END AS parent_id,
       CASE WHEN t.state = 'awaiting' THEN t.next_at END AS silence_ends_at, t.silence_means, t.silence_ms,
       t.max_attempts, t.ladder_pinned, t.by_exchange, t.cause_id,
       CASE WHEN t.replaced_by > 0 THEN t.replaced_by END AS replaced_by
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;
