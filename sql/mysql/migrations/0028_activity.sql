-- What happened in each minute, by queue: deliveries that failed, retries that the broker confirmed, deliveries that
-- succeeded. queue: as it is counted, so also a pattern, or "(other)"; "(all)" is the sum of all. Kept for 30 days. The
-- batches that were added last are in rung_promise_batches.
CREATE TABLE IF NOT EXISTS rung_activity (
  queue     VARCHAR(255) NOT NULL,
  length    SMALLINT UNSIGNED NOT NULL,
  minute    DATETIME(3) NOT NULL,
  failed    BIGINT NOT NULL,
  retried   BIGINT NOT NULL,
  succeeded BIGINT NOT NULL,
  PRIMARY KEY (queue, length, minute),
  KEY by_minute (minute)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Without the sums, so that nobody adds them to what they are made of.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_activity AS
SELECT minute, queue, failed, retried, succeeded
FROM rung_activity
WHERE queue <> '(all)';
