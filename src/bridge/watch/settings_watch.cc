#include "src/bridge/watch/settings_watch.h"

#include <algorithm>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr const char* kProblemName = "settings";

std::string as_sentence(const HarmfulSetting& setting) {
  return setting.subject + ": " + setting.what + ". Run: " + setting.mend;
}

}  // namespace

void SettingsWatch::found(const std::vector<HarmfulSetting>& settings) {
  for (const HarmfulSetting& one : settings) {
    if (std::ranges::find(known_, one) != known_.end()) continue;
    if (one.fatal) {
      log::error("a setting in the broker can lose messages of Rung's own queues",
                 {{"subject", one.subject}, {"setting", one.what}, {"mend", one.mend}});
    } else {
      log::warn("a setting in the broker harms Rung's own queues",
                {{"subject", one.subject}, {"setting", one.what}, {"mend", one.mend}});
    }
    record_(one.fatal ? "fatal_setting" : "harmful_setting", one.subject, as_sentence(one));
  }
  if (settings.empty() && !known_.empty())
    log::info("no setting in the broker harms Rung's own queues any more");
  known_ = settings;
  counts_ = {};
  for (const HarmfulSetting& one : settings) ++(one.fatal ? counts_.fatal : counts_.harmful);
  if (settings.empty()) return health_.clear(kProblemName);
  const std::size_t more = settings.size() - 1;
  health_.set(kProblemName, as_sentence(settings.front()) +
                                (more == 0 ? "" : " (and " + std::to_string(more) + " more: rung doctor)"));
}

}  // namespace rung::bridge
