-- Gates of queues: breakers, rates, limits on deliveries in flight, windows. All instances share them here.
-- probe: the number of the breaker's probe that the task's last attempt was (src/core/task/task.h). ADD counts as done
-- if the column already exists.
ALTER TABLE rung_tasks ADD COLUMN probe INT NOT NULL DEFAULT 0;

-- One row for each queue that has a gate. length: as in rung_pauses.
-- breaker_detail: JSON, what src/core/gates/breaker.h needs besides the columns.
-- hold_*: a consumer's retry-after that holds back the whole queue.
-- outside_*, limited_*: what instances saw: the queue is outside its window, tasks wait for a rate. Only for people.
CREATE TABLE IF NOT EXISTS rung_gates (
  queue          VARCHAR(255) NOT NULL,
  length         SMALLINT UNSIGNED NOT NULL,
  breaker        ENUM('closed','open','half_open') NOT NULL DEFAULT 'closed',
  breaker_since  DATETIME(3) NULL,
  breaker_until  DATETIME(3) NULL,
  breaker_reason TEXT NOT NULL,
  breaker_detail TEXT NOT NULL,
  hold_since     DATETIME(3) NULL,
  hold_until     DATETIME(3) NULL,
  hold_by        VARCHAR(255) NOT NULL DEFAULT '',
  outside_since  DATETIME(3) NULL,
  outside_until  DATETIME(3) NULL,
  outside_reason VARCHAR(255) NOT NULL DEFAULT '',
  limited_since  DATETIME(3) NULL,
  limited_until  DATETIME(3) NULL,
  limited_reason VARCHAR(255) NOT NULL DEFAULT '',
  seen_at        DATETIME(3) NOT NULL,
  PRIMARY KEY (queue, length)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Token buckets, in millionths. value: of the header of rate_by; '' = the queue's own rate.
CREATE TABLE IF NOT EXISTS rung_rates (
  queue        VARCHAR(255) NOT NULL,
  length       SMALLINT UNSIGNED NOT NULL,
  value        VARCHAR(255) NOT NULL,
  value_length SMALLINT UNSIGNED NOT NULL,
  tokens       BIGINT NOT NULL,
  filled_at    DATETIME(3) NOT NULL,
  PRIMARY KEY (queue, length, value, value_length),
  KEY by_filled (filled_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The view of 0012 with the other gates: of several that hold a queue back, the first of paused, outside_window,
-- retry-after (also paused), breaker, rate_limited. A breaker or a window that no instance has confirmed for a minute is not in force: it is no
-- longer in the config. FORCE INDEX: by_due has all that is read of rung_tasks.
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
    SELECT queue, length, 1, 'paused', since, until, reason, who, 0, NULL
    FROM rung_pauses
    WHERE until IS NULL OR until > UTC_TIMESTAMP(3)
    UNION ALL
    SELECT queue, length, 3, 'paused', hold_since, hold_until, hold_by, 'retry-after', 0, NULL
    FROM rung_gates
    WHERE hold_until > UTC_TIMESTAMP(3)
    UNION ALL
    SELECT queue, length, 2, 'outside_window', outside_since, outside_until, outside_reason, NULL, 0, NULL
    FROM rung_gates
    WHERE outside_until > UTC_TIMESTAMP(3) AND seen_at > UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE
    UNION ALL
    SELECT queue, length, 4,
           IF(breaker = 'open' AND breaker_until > UTC_TIMESTAMP(3), 'breaker_open', 'breaker_half_open'),
           breaker_since, breaker_until, breaker_reason, NULL, 0, NULL
    FROM rung_gates
    WHERE breaker <> 'closed' AND seen_at > UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE
    UNION ALL
    SELECT queue, length, 5, 'rate_limited', limited_since, limited_until, limited_reason, NULL, 0, NULL
    FROM rung_gates
    WHERE limited_until > UTC_TIMESTAMP(3)
  ) g
) s
WHERE s.nth = 1;
