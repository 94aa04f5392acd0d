// Which queues the config and the broker name, and what follows from it: names, attachments, a reload.
#include <set>
#include <utility>

#include "src/bridge/bridge.h"
#include "src/io/log.h"

namespace rung::bridge {

// Their failures come from there: they need no attachment.
std::set<std::string, std::less<>> Bridge::queues_with_error_queue() const {
  std::set<std::string, std::less<>> fed;
  const ErrorQueues& errors = rules_->error_queues();
  for (const ErrorQueue& entry : errors.all()) {
    if (!entry.is_pattern()) fed.insert(target_by_name(entry, entry.from));
  }
  for (const std::string& queue : error_queues_) {
    if (const ErrorQueue* entry = errors.find(queue)) fed.insert(target_by_name(*entry, queue));
  }
  return fed;
}

std::vector<std::string> Bridge::configured_queues() const {
  const auto fed = queues_with_error_queue();
  std::vector<std::string> names;
  for (const auto& [name, rules] : rules_->queues()) {
    // A queue of another group is attached there, not here.
    if (rules_->targets().groups.elsewhere(name) == nullptr && !fed.contains(name)) names.push_back(name);
  }
  return names;
}

void Bridge::reserve_names() {
  for (const auto& [queue, rules] : rules_->queues()) names_.reserve(queue);
  for (const std::string& queue : rules_->targets().configured) names_.reserve(queue);
}

WatchedQueues Bridge::queues_to_watch() const {
  WatchedQueues watched{attachments_.to_watch(configured_queues()), {}, attachments_.awaiting()};
  if (!rules_->patterns().empty())
    watched.also = [rules = rules_, fed = queues_with_error_queue()](const std::string& queue) {
      return rules->watches(queue) && !fed.contains(queue);
    };
  return watched;
}

void Bridge::reload(const RuleBookPtr& rules, std::optional<Ms> retention) {
  rules_ = rules->with_attached(rules_->targets().attached);
  reserve_names();
  counts_.configure(rules_);
  retention_.reload(retention);
  router_.route_waiting();
}

void Bridge::attachments_found(const AttachmentLook& look) {
  if (draining_) return;
  attachments_.found(look, configured_queues(), loop_.clock().boot());
  crash_loop_.looked(look);
  for (const std::string& queue : look.matched) counts_.know(queue);
  // While the management API does not answer, the last result applies.
  if (look.attached && *look.attached != rules_->targets().attached)
    rules_ = rules_->with_attached(*look.attached);
  router_.route_waiting();
  // Before that the database's clock is not known.
  if (shards_.node() != 0) note_attachments(attachments_.sightings(clock_));
}

void Bridge::note_attachments(const std::vector<AttachmentSighting>& seen) {
  if (seen.empty()) return;
  jobs_->submit<void>(
      Lane::upkeep, [seen](Store& store) { return store.see_attachments(seen); },
      [this, seen](const Result<void>& done) {
        if (done) return;
        log::warn("attachments not recorded", {{"reason", done.error().message}});
        attachments_.not_recorded(seen);
      });
}

}  // namespace rung::bridge
