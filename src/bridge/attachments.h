// Which queues are attached: whether their dead letters come to us. Compares what was found at each look with
// the look before: logs what changed, records an event, and keeps the problem "detached" of Health.
//
// A queue that is not attached is a problem where it was attached before (of a queue that the config does not
// name: for kRemember after the change, then the detachment counts as intended), or where the config names it
// and no failure of it has come in. A consumer that publishes its failures to <prefix>.failed needs no
// attachment. Thread: the loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/bridge/health.h"
#include "src/core/time.h"
#include "src/store/system.h"

namespace rung::bridge {

// One look at one queue.
struct QueueAttachment {
  enum class State { attached, detached, no_queue, unknown };
  std::string queue;
  State state = State::unknown;
  std::string detail;   // attached: by what. detached: where its dead letters go instead. unknown: why
  std::string command;  // attaches it
  std::string policy;   // does so without Rung: a command line
};

// One look at all.
struct AttachmentLook {
  std::vector<QueueAttachment> queues;  // those that were asked for
  // Every queue of the virtual host that is attached; none: the management API does not tell.
  std::optional<std::set<std::string, std::less<>>> attached;
  BootMs asked_at{0};
};

class Attachments {
 public:
  static constexpr Ms kRemember{std::chrono::hours{1}};
  static constexpr std::size_t kMostSeen = 1000;  // queues that the config does not name

  Attachments(Health& health, std::function<void(SystemEvent)> record)
      : health_(health), record_(std::move(record)) {}

  // A failure of this queue came in.
  void seen(const std::string& queue);
  // The queues to look at: `configured`, and those that were seen.
  std::vector<std::string> to_watch(const std::vector<std::string>& configured) const;
  // What a look at them found.
  void found(const AttachmentLook& look, const std::vector<std::string>& configured, BootMs now);

  // `ask` asks for a look at once.
  void ask_by(std::function<void()> ask) { ask_ = std::move(ask); }
  // A new connection to the broker: asks for a look.
  void connected(BootMs now);
  // A look has told which queues are attached, or one that was asked for on the present connection could not.
  bool looked() const { return told_ || last_look_ >= connected_at_; }

  // By queue, of those that the config names and that could be looked at.
  const std::vector<std::pair<std::string, bool>>& configured() const { return configured_; }

 private:
  using State = QueueAttachment::State;
  void compare(const std::vector<QueueAttachment>& look, const std::vector<std::string>& configured,
               BootMs now);
  struct Known {
    State state = State::unknown;
    bool was_attached = false;
    BootMs since{0};  // of the state
  };
  void changed(const QueueAttachment& now, Known& known, bool named);
  void say(const QueueAttachment& now, bool first) const;

  Health& health_;
  const std::function<void(SystemEvent)> record_;
  std::set<std::string, std::less<>> seen_;
  std::map<std::string, Known, std::less<>> known_;
  std::vector<std::pair<std::string, bool>> configured_;
  bool told_unknown_ = false;
  std::function<void()> ask_;
  bool told_ = false;
  BootMs last_look_{0};  // when it was asked for
  BootMs connected_at_{0};
};

}  // namespace rung::bridge
