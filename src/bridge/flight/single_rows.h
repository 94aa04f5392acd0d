// Store calls on many rows of which one may fail for good, because of its data: the batch is split, so that
// only the bad row fails. Thread: a store thread's; the functions block.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/store/store.h"

namespace rung::bridge {

// Store::messages(). A message whose reading fails for good has the reason in `broken`.
Result<std::vector<StoredMessage>> read_messages(Store& store, std::span<const TaskId> ids);

// Makes `stored` unusable, with the reason, if it is not the message of its task: nothing else may be sent.
void prove(StoredMessage& stored, const Task& task);

// Store::claim(), in as few transactions as possible. A claim that fails for good is refused, with the
// reason; a message whose reading does, as in read_messages(). Messages are proven.
Result<Claimed> claim_tasks(Store& store, std::span<const Event> claims, const Fence& fence,
                            const Decider& decide, std::size_t most_bytes);

// Store::apply() for a step of a bulk, in as few transactions as possible, each of which records its
// progress. An event that fails for good is refused, with the reason. REQUIRES: ascending ids.
Result<std::vector<Decision>> apply_step(Store& store, std::span<const Event> events, const Fence& fence,
                                         const Decider& decide, BulkStep step);

}  // namespace rung::bridge
