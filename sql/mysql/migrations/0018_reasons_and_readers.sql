-- The reason of a change by hand, and the bulk that it was part of (0: none). ADD counts as done if the column already
-- exists.
ALTER TABLE rung_audit
  ADD COLUMN reason  TEXT NULL,
  ADD COLUMN bulk_id BIGINT NOT NULL DEFAULT 0;

-- The views run with the rights of the user who creates them, so that a user may read the views alone. If that user is
-- dropped, `rung migrate` (or a start with store.migrate) creates them again. Bodies and origins have views, and so
-- rights, of their own.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_current AS
SELECT t.id AS retry_id, t.kind, t.queue, t.exchange, t.routing_key, t.tag, t.message_id, t.state, t.attempt,
       t.level, t.levels, t.ladder, t.next_due_at,
       CASE WHEN t.first_failed_at > '1970-01-01' THEN t.first_failed_at END AS first_failed_at, t.created_at,
       t.finished_at, t.finished_by, t.last_error, t.body_bytes, t.shard, n.name AS node,
       t.version, t.error_type, t.correlation_id, t.rule, t.uncounted_attempts, t.error_queue,
       CASE WHEN t.parent_id > 0 THEN t.parent_id END AS parent_id,
       CASE WHEN t.state = 'awaiting' THEN t.next_at END AS silence_ends_at, t.silence_means, t.silence_ms,
       t.max_attempts, t.ladder_pinned, t.by_exchange
FROM rung_tasks t
LEFT JOIN rung_nodes n ON n.id = t.node;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_history AS
SELECT a.task_id AS retry_id, t.queue, t.message_id, a.attempt, a.level, a.due_at,
       CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END AS published_at,
       TIMESTAMPDIFF(MICROSECOND, a.due_at, CASE WHEN a.published_at > '1970-01-01' THEN a.published_at END) DIV 1000
         AS late_ms,
       a.outcome, a.outcome_at, a.error, n.name AS node, a.executor, a.rule
FROM rung_attempts a
JOIN rung_tasks t ON t.id = a.task_id
LEFT JOIN rung_nodes n ON n.id = a.node;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_by_queue AS
SELECT t.queue, t.state, COUNT(*) AS tasks,
       MIN(CASE WHEN t.state = 'scheduled' THEN t.next_due_at END) AS oldest_due_at,
       COUNT(CASE WHEN t.state = 'scheduled' AND t.next_due_at < UTC_TIMESTAMP(3) THEN 1 END) AS overdue
FROM rung_tasks t
GROUP BY t.queue, CHAR_LENGTH(t.queue), t.state;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_audit AS
SELECT u.id AS audit_id, u.at, u.who, u.what, u.task_id AS retry_id, u.before_change, u.after_change,
       CASE WHEN u.reason <> '' THEN u.reason END AS reason, CASE WHEN u.bulk_id > 0 THEN u.bulk_id END AS bulk_id
FROM rung_audit u;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_bulks AS
SELECT id AS bulk_id, action, state, filter, reason, queue, exchange, routing_key, rate, who, total, done, applied,
       refused, created_at, finished_at, runner
FROM rung_bulks;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_events AS
SELECT e.id AS event_id, e.at, n.name AS node, e.kind, e.subject, e.detail
FROM rung_events e
LEFT JOIN rung_nodes n ON n.id = e.node;

-- Headers listed under index_headers.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_headers AS
SELECT task_id AS retry_id, name, value FROM rung_task_headers;

-- What a message brought along when it failed: x-death, headers about the failure. JSON.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_origins AS
SELECT task_id AS retry_id, origin FROM rung_bodies;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_bodies AS
SELECT task_id AS retry_id, properties, headers, body FROM rung_bodies;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_queues AS
SELECT s.queue, s.state, s.since, s.until, s.reason, s.`by`, s.waiting, s.next_at
FROM (
  SELECT g.queue, g.state, g.since, g.until, g.reason, g.`by`,
         CAST(SUM(g.waiting) OVER (PARTITION BY g.queue, g.length) AS SIGNED) AS waiting,
         MIN(g.next_at) OVER (PARTITION BY g.queue, g.length) AS next_at,
         ROW_NUMBER() OVER (PARTITION BY g.queue, g.length ORDER BY g.place) AS nth
  FROM (
    SELECT t.queue, CHAR_LENGTH(t.queue) AS length, 9 AS place, 'flowing' AS state,
           CAST(NULL AS DATETIME(3)) AS since, CAST(NULL AS DATETIME(3)) AS until, NULL AS reason, NULL AS `by`,
           COUNT(*) AS waiting, MIN(t.next_due_at) AS next_at
    FROM rung_tasks t FORCE INDEX (by_due)
    WHERE t.state = 'scheduled' AND t.queue <> ''
    GROUP BY t.queue, CHAR_LENGTH(t.queue)
    UNION ALL
    SELECT queue, length, 1 AS place, 'paused' AS state, since, until, reason, who AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_pauses
    WHERE until IS NULL OR until > UTC_TIMESTAMP(3)
    UNION ALL
    SELECT queue, length, 3 AS place, 'paused' AS state, hold_since AS since, hold_until AS until, hold_by AS reason,
           'retry-after' AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_gates
    WHERE hold_until > UTC_TIMESTAMP(3)
    UNION ALL
    SELECT queue, length, 2 AS place, 'outside_window' AS state, outside_since AS since, outside_until AS until,
           outside_reason AS reason, NULL AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_gates
    WHERE outside_until > UTC_TIMESTAMP(3) AND seen_at > UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE
    UNION ALL
    SELECT queue, length, 4 AS place,
           IF(breaker = 'open' AND breaker_until > UTC_TIMESTAMP(3), 'breaker_open', 'breaker_half_open') AS state,
           breaker_since AS since, breaker_until AS until, breaker_reason AS reason, NULL AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_gates
    WHERE breaker <> 'closed' AND seen_at > UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE
    UNION ALL
    SELECT queue, length, 5 AS place, 'rate_limited' AS state, limited_since AS since, limited_until AS until,
           limited_reason AS reason, NULL AS `by`, 0 AS waiting, NULL AS next_at
    FROM rung_gates
    WHERE limited_until > UTC_TIMESTAMP(3)
  ) g
) s
WHERE s.nth = 1;
