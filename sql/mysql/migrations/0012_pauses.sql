-- Pauses of queues by hand. One row for each queue: its pause, or its last one. It is over once `until` has
-- passed; resuming sets `until` to now. The row stays, so that sidecars know until when the queue was paused.
-- The length is part of the key: it distinguishes 'a' from 'a ', the collation does not.
CREATE TABLE IF NOT EXISTS rung_pauses (
  queue      VARCHAR(255) NOT NULL,
  length     SMALLINT UNSIGNED NOT NULL,
  since      DATETIME(3) NOT NULL,
  until      DATETIME(3) NULL,
  who        VARCHAR(255) NOT NULL,
  reason     TEXT NOT NULL,
  resumed_by VARCHAR(255) NOT NULL DEFAULT '',
  PRIMARY KEY (queue, length)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Each queue that has scheduled tasks or is paused. Tasks to an exchange have no queue and are not in it.
-- FORCE INDEX: by_due has all that is read of rung_tasks.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_queues AS
SELECT g.queue, CASE WHEN MAX(g.paused) = 1 THEN 'paused' ELSE 'flowing' END AS state, MAX(g.since) AS since,
       MAX(g.until) AS until, MAX(g.reason) AS reason, MAX(g.who) AS `by`,
       CAST(SUM(g.waiting) AS SIGNED) AS waiting, MIN(g.next_at) AS next_at
FROM (
  SELECT t.queue, 0 AS paused, CAST(NULL AS DATETIME(3)) AS since, CAST(NULL AS DATETIME(3)) AS until,
         NULL AS reason, NULL AS who, COUNT(*) AS waiting, MIN(t.next_due_at) AS next_at
  FROM rung_tasks t FORCE INDEX (by_due)
  WHERE t.state = 'scheduled' AND t.queue <> ''
  GROUP BY t.queue, CHAR_LENGTH(t.queue)
  UNION ALL
  SELECT p.queue, 1, p.since, p.until, p.reason, p.who, 0, NULL
  FROM rung_pauses p
  WHERE p.until IS NULL OR p.until > UTC_TIMESTAMP(3)
) g
GROUP BY g.queue, CHAR_LENGTH(g.queue);
