// Server-sent events for all who watch (GET /v1/events): what has changed is asked once for all of them, by
// one cheap query a second, and only while somebody watches.
// Thread: open(), stop() and the streams any; the queries run on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/api/base/context.h"
#include "src/api/base/message.h"
#include "src/core/base/time.h"
#include "src/store/tasks.h"

namespace rung::http {

// What has changed between two answers, or since a viewer's last event.
struct LiveChanges {
  std::set<TaskId> tasks = {};    // changed by hand; for a viewer also those that it watches
  std::set<TaskId> watched = {};  // changed, of those that somebody watches
  std::set<std::int64_t> bulks = {};
  bool causes = false, queues = false, new_tasks = false;
  bool more = false;  // than these
  bool operator==(const LiveChanges&) const = default;
};

class LiveFeed {
 public:
  static constexpr Ms kEvery{1000};
  static constexpr std::size_t kMostOfOneViewer = 20;  // tasks that one viewer may watch

  // `most`: viewers. REQUIRES: `reads` and `clock` outlive it.
  LiveFeed(api::Reads& reads, const Clock& clock, std::size_t most)
      : reads_(reads), clock_(clock), most_(most) {}
  ~LiveFeed() {
    drain();
    if (thread_.joinable()) thread_.join();
  }
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  // `viewer`: who, and from where. `comes_back`: had an earlier stream, and may have missed something since;
  // what that was is not kept. Empty: there are too many streams, of all or (three quarters) of this viewer,
  // or it was stopped.
  api::EventStream open(const std::string& viewer, std::vector<TaskId> watched, bool comes_back);
  // Begins to end all streams, without waiting.
  void drain();
  // Waits for that, and for a query that is under way; false: it has not ended within `most`.
  bool stop(Ms most);

 private:
  struct View;
  void run();
  void tick();
  // What the viewer has still to be told, as text; none: its stream ends.
  std::optional<std::string> take(View& view);

  api::Reads& reads_;
  const Clock& clock_;
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  // Guarded by mutex_.
  std::vector<std::weak_ptr<View>> views_;
  bool stopping_ = false, ended_ = false;
  std::thread thread_;
  std::string place_;    // "audit-event": where a viewer is that was told everything
  std::string trouble_;  // why there is no news; "" = there is
  // The thread's.
  LiveQuestion question_;
  std::optional<LiveAnswer> last_;
};

}  // namespace rung::http
