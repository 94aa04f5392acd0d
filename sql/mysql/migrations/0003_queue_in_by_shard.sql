-- Whoever loads what is due must know its queue, to bound each queue apart from the others: in the index, so that the
-- window and the sweep go on reading nothing beside it. One statement: it can be repeated, and InnoDB does it in place.
ALTER TABLE rung_tasks DROP INDEX by_shard, ADD INDEX by_shard (state, shard, next_at, queue);
