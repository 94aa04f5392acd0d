#include "src/bridge/silence_check.h"

#include <optional>
#include <vector>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr int kSilentPerShard = 1000;

}  // namespace

void SilenceCheck::check() {
  if (busy_) return;
  busy_ = true;
  deps_.jobs.submit<std::vector<DueEntry>>(
      Lane::control,
      [shards = deps_.shards.list(), until = deps_.clock.now()](TaskStore& store) {
        return store.due(State::awaiting, shards, std::nullopt, until, kSilentPerShard);
      },
      [this](const Result<std::vector<DueEntry>>& rows) {
        busy_ = false;
        if (!rows)
          return log::error("querying for unanswered deliveries failed", {{"reason", rows.error().message}});
        for (const DueEntry& row : *rows) {
          if (!ending_.insert(row.id).second) continue;
          deps_.transitions.add({row.id, event::SilenceOver{}},
                                [this, id = row.id](const Result<Decision>& decision) {
                                  ending_.erase(id);
                                  if (decision) deps_.observer.decided(*decision);
                                });
        }
        deps_.transitions.flush();
      });
}

}  // namespace rung::bridge
