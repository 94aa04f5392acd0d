// Server-sent events for all who watch (GET /v1/events): what has changed is asked once for all of them, by
// one cheap query a second, and only while somebody watches.
// Thread: open() and stop() any; the queries run on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/api/base/message.h"
#include "src/api/base/reads.h"
#include "src/core/base/time.h"
#include "src/store/tasks.h"

namespace rung::http {

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

  // `viewer`: who, and from where. `resumes_at`: the id of the last event that the viewer has had, "" = none.
  // nullptr: there are too many streams, of all or (three quarters) of this viewer, or it was stopped.
  std::shared_ptr<api::EventStream> open(const std::string& viewer, std::vector<TaskId> watched,
                                         std::string_view resumes_at);
  // Begins to end all streams, without waiting.
  void drain();
  // Waits for that, and for a query that is under way; false: it has not ended within `most`.
  bool stop(Ms most);

 private:
  class View;
  // What the answers before have said.
  struct Progress {
    LiveQuestion question = {};
    LiveAnswer last = {};
    std::string trouble;  // why there is no news; "" = there is
    bool begun = false;
  };
  void run();
  std::vector<std::shared_ptr<View>> current();  // without those whose connection has ended
  void tick(bool pings);

  api::Reads& reads_;
  const Clock& clock_;
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::vector<std::weak_ptr<View>> views_;  // guarded by mutex_
  bool stopping_ = false, ended_ = false;   // guarded by mutex_
  std::thread thread_;                      // guarded by mutex_
  Progress progress_;                       // the thread's
};

}  // namespace rung::http
