-- Promises of lateness (late_by): how many confirmed deliveries kept theirs. A row for each queue and five minutes (kept
-- for an hour), and for each queue and hour (kept for a day). queue: as it is counted, so also a pattern, or "(other)".
-- in_time + late + gated: all deliveries; gated: late, and only because of a gate.
CREATE TABLE IF NOT EXISTS rung_promises (
  queue   VARCHAR(255) NOT NULL,
  length  SMALLINT UNSIGNED NOT NULL,
  minutes SMALLINT UNSIGNED NOT NULL,
  since   DATETIME(3) NOT NULL,
  in_time BIGINT NOT NULL,
  late    BIGINT NOT NULL,
  gated   BIGINT NOT NULL,
  PRIMARY KEY (queue, length, minutes, since),
  KEY by_since (minutes, since)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The latest batch of counts of each instance: one whose answer was lost is repeated, and must not count twice.
CREATE TABLE IF NOT EXISTS rung_promise_batches (
  maker VARCHAR(255) NOT NULL,
  batch VARCHAR(64) CHARACTER SET ascii NOT NULL,
  at    DATETIME(3) NOT NULL,
  PRIMARY KEY (maker)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The promise is the queue's, so that each of its rows has the same figures. NULL: no promise, or no delivery in the last
-- day. share: in_time of in_time and late; a double, because a decimal would round 99,999 of 100,000 to 1.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_by_queue AS
SELECT q.queue, q.state, q.tasks, q.oldest_due_at, q.overdue,
       p.in_time_last_hour * 1e0 / NULLIF(p.in_time_last_hour + p.late_last_hour, 0) AS share_last_hour,
       p.in_time_last_hour, p.late_last_hour, p.gated_last_hour,
       p.in_time_last_day * 1e0 / NULLIF(p.in_time_last_day + p.late_last_day, 0) AS share_last_day,
       p.in_time_last_day, p.late_last_day, p.gated_last_day
FROM (
  SELECT t.queue, CHAR_LENGTH(t.queue) AS length, t.state, COUNT(*) AS tasks,
         MIN(CASE WHEN t.state = 'scheduled' THEN t.next_due_at END) AS oldest_due_at,
         COUNT(CASE WHEN t.state = 'scheduled' AND t.next_due_at < UTC_TIMESTAMP(3) THEN 1 END) AS overdue
  FROM rung_tasks t
  GROUP BY t.queue, CHAR_LENGTH(t.queue), t.state
) q
LEFT JOIN (
  SELECT queue, length,
         CAST(SUM(CASE WHEN minutes = 5 THEN in_time ELSE 0 END) AS SIGNED) AS in_time_last_hour,
         CAST(SUM(CASE WHEN minutes = 5 THEN late ELSE 0 END) AS SIGNED) AS late_last_hour,
         CAST(SUM(CASE WHEN minutes = 5 THEN gated ELSE 0 END) AS SIGNED) AS gated_last_hour,
         CAST(SUM(CASE WHEN minutes = 60 THEN in_time ELSE 0 END) AS SIGNED) AS in_time_last_day,
         CAST(SUM(CASE WHEN minutes = 60 THEN late ELSE 0 END) AS SIGNED) AS late_last_day,
         CAST(SUM(CASE WHEN minutes = 60 THEN gated ELSE 0 END) AS SIGNED) AS gated_last_day
  FROM rung_promises
  WHERE (minutes = 5 AND since > UTC_TIMESTAMP(3) - INTERVAL 1 HOUR)
     OR (minutes = 60 AND since > UTC_TIMESTAMP(3) - INTERVAL 1 DAY)
  GROUP BY queue, length
) p ON p.queue = q.queue AND p.length = q.length;
