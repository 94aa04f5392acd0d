#include <utility>

#include "tests/support/memory/memory_store.h"

namespace rung {

std::vector<CauseRow> MemoryCauses::write(const CauseChanges& changes, EpochMs now) {
  std::vector<CauseRow> appeared;
  for (CauseRow row : changes.fresh()) {
    row.first_seen = row.last_seen = now;
    if (rows_.try_emplace(row.id, row).second) appeared.push_back(std::move(row));
  }
  book_.stored(changes.fresh());
  return appeared;
}

void MemoryCauses::read() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [id, row] : rows_) all.emplace_back(id, row.queue);
  book_.load(all);
}

Result<CausesFolded> MemoryStore::fold_causes(int) {
  return call([] { return CausesFolded{}; });
}

Result<void> MemoryStore::read_causes() {
  return call([&] { db_.causes_.read(); });
}

}  // namespace rung
