-- Rates by send times. next_us: the next free send time of the queue or the value, us since 1970 UTC; 0 = free now.
-- reserved: for a limit in flight, the tasks that may be claimed and are not yet (src/core/gates/send_times.h). tokens,
-- filled_at: for sidecars of the release before, which keep token buckets; to them a bucket is empty until filled_at.
-- ADD counts as done if the column already exists.
ALTER TABLE rung_rates ADD COLUMN next_us BIGINT NOT NULL DEFAULT 0;

ALTER TABLE rung_rates ADD COLUMN reserved MEDIUMTEXT NULL;
