-- Counts a node's registrations and heartbeats. A sidecar that finds fewer than it wrote knows that the database went back
-- in time (a restored backup). ADD is taken for done where the column is there already.
ALTER TABLE rung_nodes ADD COLUMN beats BIGINT UNSIGNED NOT NULL DEFAULT 0;
