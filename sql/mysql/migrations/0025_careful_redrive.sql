-- Redrives that look at their own outcome.
ALTER TABLE rung_bulks
  ADD COLUMN canary          BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN watch_ms        BIGINT NULL,
  ADD COLUMN ramp            TINYINT NOT NULL DEFAULT 0,
  ADD COLUMN stop_above      DOUBLE NULL,
  ADD COLUMN canary_done     BIGINT NULL,
  ADD COLUMN stopped_because TEXT NULL;

-- Of a redrive or a fire: the last attempt before it changed the task. NULL: not yet, or there was nothing to change.
ALTER TABLE rung_bulk_items ADD COLUMN after_attempt INT NULL;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW retry_bulks AS
SELECT id AS bulk_id, action, state, filter, reason,
       queue, exchange, routing_key, rate, who, total, done, applied, refused, created_at, finished_at, runner,
       canary, watch_ms, ramp, stop_above, stopped_because
FROM rung_bulks;
