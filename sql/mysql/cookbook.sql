-- Common questions about the history, and the SQL that answers them. Each runs unchanged, in any client, on
-- the sidecar's database; adapt the values in the SETs. Times are UTC. A test runs each on tens of thousands
-- of rows and checks that none scans a big table.
--
-- The views: retry_current (a row per message), retry_history (a row per delivery), retry_by_queue (counts),
-- retry_causes (a row per cause of failures), retry_audit (a row per change by hand), retry_bulks (a row per bulk
-- change), retry_queues (a row per queue that waits or is paused), retry_events (what instances recorded),
-- retry_activity (counts by queue and minute), retry_attachments (whether a queue's failures reach Rung),
-- retry_headers (the values of index_headers), retry_origins (how a message first arrived), retry_bodies (messages).

-- ## One message's whole story
-- Every delivery of the message with that message-id: when it was due, when it was published, its outcome.
SET @message_id = '4711';
SELECT retry_id, queue, attempt, level, due_at, published_at, late_ms, outcome, outcome_at, error, node
FROM retry_history
WHERE message_id = @message_id
ORDER BY retry_id, attempt;

-- ## Where is this message now
-- State, level and the next time it goes out. By the property correlation_id: WHERE correlation_id = ...
SET @message_id = '4711';
SELECT retry_id, queue, state, attempt, level, levels, ladder, next_due_at, first_failed_at, finished_at, finished_by,
       last_error
FROM retry_current
WHERE message_id = @message_id
ORDER BY retry_id;

-- ## By the value of a header
-- The hundred newest, for a header that `index_headers` of the config names.
SET @header = 'tenant', @value = 'acme';
SELECT t.retry_id, t.queue, t.message_id, t.state, t.attempt, t.next_due_at, t.last_error
FROM retry_headers h
JOIN retry_current t ON t.retry_id = h.retry_id
WHERE h.name = @header AND h.value = @value
ORDER BY h.retry_id DESC
LIMIT 100;

-- ## What is due in the next hour
-- The next hundred, the earliest first.
SELECT next_due_at, queue, message_id, attempt, level, levels, last_error
FROM retry_current
WHERE state = 'scheduled' AND next_due_at <= UTC_TIMESTAMP(3) + INTERVAL 1 HOUR
ORDER BY next_due_at
LIMIT 100;

-- ## The load to come
-- How many messages return to each queue, by minute, in the next hour.
SELECT DATE_FORMAT(next_due_at, '%Y-%m-%d %H:%i') AS minute, queue, COUNT(*) AS messages
FROM retry_current
WHERE state = 'scheduled' AND next_due_at BETWEEN UTC_TIMESTAMP(3) AND UTC_TIMESTAMP(3) + INTERVAL 1 HOUR
GROUP BY DATE_FORMAT(next_due_at, '%Y-%m-%d %H:%i'), queue
ORDER BY minute, messages DESC;

-- ## What is overdue now
-- Scheduled for a time that has passed: empty while the sidecars keep up.
SELECT next_due_at, TIMESTAMPDIFF(SECOND, next_due_at, UTC_TIMESTAMP(3)) AS late_s, queue, message_id, shard
FROM retry_current
WHERE state = 'scheduled' AND next_due_at < UTC_TIMESTAMP(3) - INTERVAL 5 SECOND
ORDER BY next_due_at
LIMIT 100;

-- ## Which queues fail most today
-- Deliveries due since midnight, and the share that failed, was returned or got no answer.
SELECT queue, COUNT(*) AS deliveries,
       SUM(outcome IN ('failed', 'timed_out', 'returned')) AS failures,
       ROUND(100 * SUM(outcome IN ('failed', 'timed_out', 'returned')) / COUNT(*), 1) AS percent
FROM retry_history
WHERE due_at >= UTC_DATE() AND due_at <= UTC_TIMESTAMP(3)
GROUP BY queue
ORDER BY failures DESC
LIMIT 20;

-- ## What is parked, and why
-- Each cause (docs/causes.md) with the tasks that it has parked. rung list --cause CAUSE shows them.
SELECT cause_id, queue, error_type, LEFT(sample, 120) AS error, parked, first_seen, last_seen, state, owner
FROM retry_causes
WHERE parked > 0
ORDER BY parked DESC
LIMIT 50;

-- ## The slowest to recover
-- Succeeded within the last day, the longest time since the first failure first.
SELECT retry_id, queue, message_id, attempt, first_failed_at, finished_at,
       TIMESTAMPDIFF(SECOND, first_failed_at, finished_at) AS took_s, last_error
FROM retry_current
WHERE state = 'succeeded' AND first_failed_at IS NOT NULL AND finished_at >= UTC_TIMESTAMP(3) - INTERVAL 1 DAY
ORDER BY took_s DESC
LIMIT 20;

-- ## How late are deliveries today
-- Percentiles of the time between due and the broker's confirm, in ms.
SELECT MAX(n) AS deliveries,
       MIN(CASE WHEN place >= 0.50 * n THEN late_ms END) AS p50,
       MIN(CASE WHEN place >= 0.95 * n THEN late_ms END) AS p95,
       MIN(CASE WHEN place >= 0.99 * n THEN late_ms END) AS p99,
       MAX(late_ms) AS worst
FROM (SELECT late_ms, ROW_NUMBER() OVER (ORDER BY late_ms) AS place, COUNT(*) OVER () AS n
      FROM retry_history
      WHERE due_at >= UTC_DATE() AND due_at <= UTC_TIMESTAMP(3) AND published_at IS NOT NULL) today;

-- ## At which level do messages recover
-- Answered deliveries of the last two days, by level: does a ladder need its upper rungs?
SELECT level, COUNT(*) AS answered, SUM(outcome = 'succeeded') AS succeeded,
       ROUND(100 * SUM(outcome = 'succeeded') / COUNT(*), 1) AS percent
FROM retry_history
WHERE due_at >= UTC_TIMESTAMP(3) - INTERVAL 2 DAY AND due_at <= UTC_TIMESTAMP(3) AND outcome <> 'pending'
GROUP BY level
ORDER BY level;

-- ## Which messages were retried most
-- Among messages taken in within the last two days.
SELECT retry_id, queue, message_id, state, attempt, level, created_at, last_error
FROM retry_current
WHERE created_at >= UTC_TIMESTAMP(3) - INTERVAL 2 DAY
ORDER BY attempt DESC, retry_id
LIMIT 20;

-- ## Awaiting and silent
-- Delivered, and no result from the consumer yet: the longest wait first.
SELECT c.retry_id, c.queue, c.message_id, c.attempt, h.published_at,
       TIMESTAMPDIFF(SECOND, h.published_at, UTC_TIMESTAMP(3)) AS silent_s
FROM retry_current c
JOIN retry_history h ON h.retry_id = c.retry_id AND h.attempt = c.attempt
WHERE c.state = 'awaiting'
ORDER BY h.published_at
LIMIT 100;

-- ## Who holds which shards
-- One row per instance; shards without an owner are under NULL.
SELECT n.name AS node, n.address, n.seen_at, COUNT(*) AS shards, MIN(s.expires_at) AS first_expires_at,
       GROUP_CONCAT(s.id ORDER BY s.id) AS ids
FROM rung_shards s
LEFT JOIN rung_nodes n ON n.id = s.owner AND s.expires_at > UTC_TIMESTAMP(3)
GROUP BY n.name, n.address, n.seen_at
ORDER BY n.name;

-- ## Reported or presumed
-- Successes of the last two days: how many were reported by a consumer, how many were only presumed?
SELECT queue, SUM(finished_by = 'reported') AS reported, SUM(finished_by = 'presumed') AS presumed
FROM retry_current
WHERE state = 'succeeded' AND finished_at >= UTC_TIMESTAMP(3) - INTERVAL 2 DAY
GROUP BY queue
ORDER BY queue;

-- ## How the promises of lateness were kept
-- Of the queues with late_by: the share of deliveries in time, and how many were late, or late only because of a gate.
SELECT DISTINCT queue, share_last_hour, late_last_hour, gated_last_hour, share_last_day, late_last_day, gated_last_day
FROM retry_by_queue
WHERE in_time_last_day IS NOT NULL
ORDER BY share_last_hour, queue;

-- ## Everything that ever happened to one order
-- Taken in, published, answered, changed by hand: the message with that message-id, in order of time.
SET @message_id = '4711';
SELECT at, what, detail, who
FROM (SELECT created_at AS at, CONCAT('taken in: ', kind) AS what,
             IF(queue <> '', queue, CONCAT(exchange, ' > ', routing_key)) AS detail, '' AS who
      FROM retry_current WHERE message_id = @message_id
      UNION ALL
      SELECT published_at, CONCAT('sent, delivery ', attempt, ', level ', level), CONCAT('was due ', due_at), node
      FROM retry_history WHERE message_id = @message_id AND published_at IS NOT NULL
      UNION ALL
      SELECT outcome_at, CONCAT(outcome, ', delivery ', attempt), LEFT(error, 500), executor
      FROM retry_history WHERE message_id = @message_id AND outcome_at IS NOT NULL
      UNION ALL
      SELECT a.at, CONCAT(a.what, ' by hand'), CONCAT(a.before_change, ' -> ', a.after_change), a.who
      FROM retry_current c JOIN retry_audit a ON a.retry_id = c.retry_id
      WHERE c.message_id = @message_id) story
ORDER BY at;

-- ## Who cancelled what
-- By hand, within the last two days, the latest first; last_error is the reason given.
SELECT a.at, a.who, c.tag, c.queue, c.message_id, c.last_error AS reason
FROM retry_audit a
JOIN retry_current c ON c.retry_id = a.retry_id
WHERE a.at >= UTC_TIMESTAMP(3) - INTERVAL 2 DAY AND a.what = 'cancel'
ORDER BY a.at DESC
LIMIT 100;

-- ## Who changes things by hand, and how much
-- By day, within the last 30.
SELECT DATE(at) AS day, who, what, COUNT(*) AS changes, COUNT(DISTINCT retry_id) AS tasks
FROM retry_audit
WHERE at >= UTC_TIMESTAMP(3) - INTERVAL 30 DAY
GROUP BY DATE(at), who, what
ORDER BY day DESC, changes DESC;

-- ## Which executor fails most
-- Deliveries of the last day, by the executor that reported handling them: is one machine worse than the
-- others? Deliveries that got no answer or were returned have no executor.
SELECT executor, COUNT(*) AS deliveries, SUM(outcome = 'failed') AS failures,
       ROUND(100 * SUM(outcome = 'failed') / COUNT(*), 1) AS percent, MAX(outcome_at) AS last_heard
FROM retry_history
WHERE due_at >= UTC_TIMESTAMP(3) - INTERVAL 1 DAY AND due_at <= UTC_TIMESTAMP(3) AND executor <> ''
GROUP BY executor
ORDER BY failures DESC
LIMIT 20;

-- ## Unfinished work, by age
-- Unfinished tasks: their age, by tag.
SELECT tag, COUNT(*) AS unfinished, SUM(age_h < 1) AS under_1h, SUM(age_h >= 1 AND age_h < 24) AS under_1d,
       SUM(age_h >= 24 AND age_h < 168) AS under_1w, SUM(age_h >= 168) AS older, MIN(created_at) AS oldest
FROM (SELECT tag, created_at, TIMESTAMPDIFF(HOUR, created_at, UTC_TIMESTAMP(3)) AS age_h
      FROM retry_current
      WHERE state = 'scheduled'
      UNION ALL
      SELECT tag, created_at, TIMESTAMPDIFF(HOUR, created_at, UTC_TIMESTAMP(3)) FROM retry_current
      WHERE state = 'publishing'
      UNION ALL
      SELECT tag, created_at, TIMESTAMPDIFF(HOUR, created_at, UTC_TIMESTAMP(3)) FROM retry_current
      WHERE state = 'awaiting'
     ) unfinished
GROUP BY tag
ORDER BY unfinished DESC;

-- ## A tag's work of the last day, with all its facts
-- Expected and actual time, who handled it, the error with its stack, the version.
SET @tag = 'order.close';
SELECT c.message_id, h.attempt, h.due_at AS expected, h.published_at AS actual, h.late_ms, h.outcome, h.executor,
       h.error, c.state, c.version
FROM retry_history h
JOIN retry_current c ON c.retry_id = h.retry_id
WHERE c.tag = @tag AND h.due_at >= UTC_TIMESTAMP(3) - INTERVAL 1 DAY AND h.due_at <= UTC_TIMESTAMP(3)
ORDER BY h.due_at DESC
LIMIT 100;

-- ## How each tag's work ends
-- For tasks taken in within the last two days.
SELECT tag, kind, COUNT(*) AS tasks, SUM(state = 'succeeded') AS succeeded, SUM(state = 'cancelled') AS cancelled,
       SUM(state = 'parked') AS parked, ROUND(AVG(attempt), 2) AS deliveries_each
FROM retry_current
WHERE created_at >= UTC_TIMESTAMP(3) - INTERVAL 2 DAY
GROUP BY tag, kind
ORDER BY tasks DESC;

-- ## Delays that failed when their time came
-- They climb a ladder now.
SELECT retry_id, tag, queue, message_id, level, levels, next_due_at, first_failed_at, last_error
FROM retry_current
WHERE state = 'scheduled' AND kind = 'delay' AND first_failed_at IS NOT NULL
ORDER BY next_due_at
LIMIT 100;

-- ## What rules decided in the last day
-- By rule and queue, with the outcome: how many failures a rule parked, discarded or sent on. give_up is the
-- queue's limit.
SELECT rule, queue, state, COUNT(*) AS tasks, MAX(last_error) AS an_error
FROM retry_current
WHERE created_at > UTC_TIMESTAMP(3) - INTERVAL 1 DAY AND rule <> ''
GROUP BY rule, queue, state
ORDER BY tasks DESC
LIMIT 100;

-- ## How far are the bulk changes
-- The latest 20, with who requested them and which process runs them.
SELECT bulk_id, action, state, done, total, ROUND(100 * done / GREATEST(total, 1), 1) AS percent, applied, refused,
       filter, who, runner, created_at, finished_at
FROM retry_bulks
ORDER BY bulk_id DESC
LIMIT 20;

-- ## What holds queues back
-- A pause, a window, a breaker or a rate, and what is due behind it. The queues with the most that waits come first.
SELECT queue, state, since, until, reason, waiting, next_at,
       GREATEST(TIMESTAMPDIFF(SECOND, next_at, UTC_TIMESTAMP(3)), 0) AS oldest_late_s
FROM retry_queues
WHERE state <> 'flowing'
ORDER BY waiting DESC, queue
LIMIT 100;

-- ## Who paused and resumed queues, and when breakers opened and closed
-- The latest 100 events.
SELECT at, kind, subject AS queue, detail
FROM retry_events
WHERE kind IN ('queue_paused', 'queue_resumed', 'breaker_opened', 'breaker_probed', 'breaker_closed')
ORDER BY at DESC
LIMIT 100;

-- ## How much history there is, by day
-- The partitions of the history's tables, the newest first; rows and MB are the server's estimates. Each ends
-- before the day in `until` (UTC); the last one, without an end, should be empty.
SELECT partition_name AS part,
       TIMESTAMPADD(SECOND, CAST(NULLIF(partition_description, 'MAXVALUE') AS SIGNED) DIV 4194304000, '2025-01-01') AS until,
       SUM(IF(table_name = 'rung_attempts', table_rows, 0)) AS attempts,
       SUM(IF(table_name = 'rung_bodies', table_rows, 0)) AS bodies,
       ROUND(SUM(data_length + index_length) / 1048576, 1) AS mb
FROM information_schema.partitions
WHERE table_schema = DATABASE() AND table_name IN ('rung_attempts', 'rung_bodies') AND partition_name IS NOT NULL
GROUP BY partition_name, partition_description
ORDER BY until IS NULL DESC, until DESC;
