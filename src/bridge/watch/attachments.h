// Tracks which queues are attached, that is, whether their dead letters reach us. Compares each check with
// the one before: logs changes, records an event, and maintains the problem "detached" in Health.
//
// A detached queue is a problem in two cases:
//   - It was attached before. For a queue that the config does not name, the problem ends kRemember after the
//     change: the detachment then counts as intended.
//   - The config names it, and no failure from it has arrived. (A consumer that publishes its failures to
//     <prefix>.failed needs no attachment.) A queue that only matches a pattern of the config may be one that
//     needs no attachment, such as a dead-letter queue: it is logged and shown, but is no problem.
//
// A queue counts as detached only after two looks in a row: a look reads queues and policies one after the
// other, and a change between them looks like neither. What the looks say is passed on to all instances
// (rung_attachments).
// Thread: the loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/bridge/base/sidecar.h"

namespace rung::bridge {

// The result of checking one queue.
struct QueueAttachment {
  std::string queue;
  std::optional<AttachmentState> state;  // none: not known
  std::string detail;   // attached: by what. detached: where its dead letters go. not known: why
  std::string command;  // a command that attaches it
  std::string policy;   // a command line that attaches it without Rung
  std::optional<QueueCount> count = {};  // only of WatchedQueues::awaiting
};

// What to check.
struct WatchedQueues {
  std::vector<std::string> names;
  // Further queues of the virtual host; empty function: none. Any thread.
  std::function<bool(const std::string& queue)> also = {};
  // Of `names`: those with deliveries. What is in them is counted, too.
  std::set<std::string, std::less<>> awaiting = {};
};

// The result of checking all queues.
struct AttachmentLook {
  std::vector<QueueAttachment> queues;  // those requested, and those that match a pattern of the config
  // Every attached queue of the virtual host; none: the management API did not tell.
  std::optional<std::set<std::string, std::less<>>> attached;
  BootMs asked_at{0};
  // The lowest of those of Rung's own queues that messages are taken in from; none: the management API did
  // not tell.
  std::optional<DeliveryLimit> limit = {};
  std::set<std::string, std::less<>> matched = {};  // of `queues`: those that match a pattern
};

class Attachments {
 public:
  static constexpr Ms kRemember{std::chrono::hours{1}};
  static constexpr std::size_t kMostSeen = 1000;  // queues that the config does not name
  // So long after a queue became detached, looks are frequent: once it is attached again, silence counts.
  static constexpr Ms kEager{std::chrono::minutes{10}};

  explicit Attachments(const Sidecar& sidecar) : sidecar_(sidecar) {}

  // A failure from this queue arrived.
  void seen(const std::string& queue);
  void failed(const Task& task);
  // Deliveries to these queues await an answer: they are watched until the next call. At most kMostSeen.
  void awaiting(const std::vector<std::string>& queues);
  const std::set<std::string, std::less<>>& awaiting() const { return awaiting_; }
  // The queues to check: `configured`, those seen, and those with deliveries.
  std::vector<std::string> to_watch(const std::vector<std::string>& configured) const;
  // Takes the result of a check.
  void found(const AttachmentLook& look, const std::vector<std::string>& configured);

  // `ask` requests an immediate check.
  void ask_by(std::function<void()> ask) { ask_ = std::move(ask); }
  // A new connection to the broker: requests a check.
  void connected();
  // A check has found which queues are attached, or one requested on the current connection failed to.
  bool looked() const { return told_ || looked_at_ >= connected_at_; }

  // --- for SilenceCheck
  bool can_look() const { return ask_ != nullptr; }
  // Requests a look at these queues, too.
  void look_at(const std::set<std::string>& queues) {
    awaiting_.insert(queues.begin(), queues.end());
    ask();
  }
  // What the looks since then have left open: whether this queue is attached, what is in it. Nothing if there
  // was no look.
  struct Missed {
    bool state = false, count = false;
  };
  Missed missed(std::string_view queue, EpochMs since) const;
  // The database's clock stepped: earlier looks have no time by it any more.
  void clock_stepped() {
    for (auto& [queue, known] : known_) known.asked_at = known.counted_at = {0};
    last_look_ = {0};
    ask();
  }
  // Looks should be frequent.
  bool is_eager() const { return now() < eager_until_; }

  // By queue: those that the config names, also by a pattern, and that could be checked.
  const std::vector<std::pair<std::string, bool>>& configured() const { return configured_; }

 private:
  // What the looks so far say of a queue in the last one.
  struct Known {
    std::optional<AttachmentState> state;  // none: not known yet
    BootMs since{0};                       // start of the state
    BootMs asked_at{0};                    // the latest look that told
    bool was_attached = false;             // at some look, perhaps before anything could be passed on
    bool doubtful = false;                 // the last look was the first to say that it is not attached
    BootMs counted_at{0};                  // the latest look that said what is in it
  };
  BootMs now() const { return sidecar_.loop.clock().boot(); }
  // Writes what all instances have to know.
  void note(const std::vector<AttachmentSighting>& seen);
  // False: another look has to decide.
  bool take(const QueueAttachment& seen, BootMs asked_at, bool named);
  void show_problem(const std::vector<const QueueAttachment*>& detached);
  void tell_unknown(const AttachmentLook& look, const std::vector<std::string>& configured);
  void ask() const {
    if (ask_) ask_();
  }
  void changed(const QueueAttachment& seen, const Known& known, bool named);

  const Sidecar& sidecar_;
  std::set<std::string, std::less<>> seen_;
  std::set<std::string, std::less<>> awaiting_;
  std::set<std::string, std::less<>> by_failure_;  // noted; at most kMostSeen
  BootMs eager_until_{0};
  std::map<std::string, Known, std::less<>> known_;
  std::vector<std::pair<std::string, bool>> configured_;
  bool told_unknown_ = false;
  std::function<void()> ask_;
  bool told_ = false;
  BootMs looked_at_{0};  // when the last look was requested
  BootMs last_look_{0};  // the same; 0 after a step of the database's clock
  BootMs connected_at_{0};
};

}  // namespace rung::bridge
