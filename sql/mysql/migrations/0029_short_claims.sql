-- The lease under which an attempt was claimed: of many tasks claimed at once only the attempts say so, until the
-- confirm (src/core/machine/machine.h). 0: from an older release. ADD counts as done if the column already exists.
ALTER TABLE rung_attempts ADD COLUMN epoch BIGINT UNSIGNED NOT NULL DEFAULT 0;
