-- The view of 0013, with a name for each column of each SELECT: MySQL names a nameless one after its expression, and a dump
-- with such a name of more than 64 characters cannot be imported (error 1166).
CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_queues AS
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
