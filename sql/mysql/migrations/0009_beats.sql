-- Counts a node's registrations and heartbeats. A sidecar that reads a lower count than it wrote knows that
-- the database went back in time (a restored backup). ADD counts as done if the column already exists.
ALTER TABLE rung_nodes ADD COLUMN beats BIGINT UNSIGNED NOT NULL DEFAULT 0;
