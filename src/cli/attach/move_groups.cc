#include "src/cli/attach/move_groups.h"

#include <fmt/format.h>

#include <thread>

#include "src/cli/attach/under_way.h"
#include "src/cli/service/retry.h"

namespace rung::cli {
namespace {

constexpr Ms kLookAgain{300};
// The longest wait for a heartbeat: three a lease, whose default is 10 s.
constexpr Ms kLongestBeat{60'000};

int open(const std::string& config, bool is_target, MoveGroup& group) {
  const auto opened = open_group(config, {group.name}, group.session);
  if (opened || (!is_target && has_no_tables(opened.error()))) return kSuccess;
  return report_error(exit_of(opened.error()),
                      "group " + group.name + ": " + opened.error().message + "; nothing was changed");
}

// "group eu: node-1 (vm:865)", with the separator before it.
void add_name(std::string& names, const std::string& group, const NodeRow& node) {
  names += fmt::format("{}group {}: {} ({})", names.empty() ? "" : ", ", group, node.name, node.address);
}

struct Behind {
  std::string names;      // of live sidecars with another config; "" = none
  bool has_beat = false;  // one of them has written its config since the command began
};

Result<Behind> sidecars_behind(const MoveGroups& groups) {
  Behind behind;
  for (const auto& group : groups) {
    if (group->session.store == nullptr) continue;
    const std::string ours = fingerprint(group->session.config);
    const auto nodes = retry_transient([&] { return group->session.store->live_nodes(); });
    if (!nodes) return tl::unexpected(nodes.error());
    for (const NodeRow& node : *nodes) {
      if (node.config == ours) continue;
      add_name(behind.names, group->name, node);
      if (node.seen_at > group->session.now) behind.has_beat = true;
    }
  }
  return behind;
}

}  // namespace

int open_groups(const std::string& config, const QueueGroups& groups, const std::string& to,
                MoveGroups& opened) {
  for (const QueueGroups::Group& group : groups.all) {
    opened.push_back(std::make_unique<MoveGroup>(MoveGroup{group.name}));
    if (const int code = open(config, group.name == to, *opened.back()); code != kSuccess) return code;
  }
  return kSuccess;
}

int check_sidecars(const MoveGroups& groups) {
  const SystemClock clock;
  const BootMs until = clock.boot() + kLongestBeat;
  for (;;) {
    const auto behind = sidecars_behind(groups);
    if (!behind) return report_error(behind.error());
    if (behind->names.empty()) return kSuccess;
    if (behind->has_beat || clock.boot() >= until) {
      return report_error(kUserError,
                          "sidecars run another config than this file: " + behind->names +
                              ": reload them (rung reload, or SIGHUP; keys that need a restart: restart "
                              "them), then run rung move again; nothing was changed");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace rung::cli
