-- The views of the contract: new columns are only appended. Columns are passed through unchanged, so that a
-- filter on a view is a filter on an indexed column. SQL SECURITY INVOKER: the views still work if the user
-- who created them is dropped.

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at, t.first_failed_at, t.created_at, t.finished_at, t.finished_by,
       t.last_error, t.body_bytes, t.shard, n.name AS node
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_history AS
SELECT a.task_id AS retry_id, t.queue, t.message_id, a.attempt, a.level, a.due_at, a.published_at,
       TIMESTAMPDIFF(MICROSECOND, a.due_at, a.published_at) DIV 1000 AS late_ms,
       a.outcome, a.outcome_at, a.error, n.name AS node
FROM rung_attempts a
JOIN rung_tasks t ON t.id = a.task_id
LEFT JOIN rung_nodes n ON n.id = a.node;

-- The length in GROUP BY distinguishes 'orders' from 'orders ', which are equal in the collation.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_by_queue AS
SELECT t.queue, t.state, COUNT(*) AS tasks,
       MIN(CASE WHEN t.state = 'scheduled' THEN t.next_due_at END) AS oldest_due_at,
       COUNT(CASE WHEN t.state = 'scheduled' AND t.next_due_at < UTC_TIMESTAMP(3) THEN 1 END) AS overdue
FROM rung_tasks t
GROUP BY t.queue, CHAR_LENGTH(t.queue), t.state;
