// What one viewer of GET /v1/events still has to get: the latest of each event, so that a slow one costs no
// more memory than a quick one.
// Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/api/base/message.h"
#include "src/core/base/time.h"
#include "src/store/tasks.h"

namespace rung::http {

// What the feed knows of the answers before.
struct LiveProgress {
  LiveQuestion question = {};
  LiveAnswer last = {};
  std::string trouble;  // why there is no news; "" = there is
  bool begun = false;
};

// What has changed since a viewer's last event.
struct LiveChanges {
  std::set<std::int64_t> tasks = {}, bulks = {};
  bool causes = false, queues = false, new_tasks = false;
  bool more = false;  // than these
  bool empty() const { return tasks.empty() && bulks.empty() && !causes && !queues && !new_tasks && !more; }
  void add(const LiveChanges& other);
};

class LiveView final : public api::EventStream {
 public:
  LiveView(std::string viewer, std::vector<TaskId> watched, BootMs until)
      : viewer_(std::move(viewer)), watched_(std::move(watched)), until_(until) {}

  void begin(std::function<void()> wake) override;
  std::optional<std::string> take() override;

  const std::string& viewer() const { return viewer_; }
  const std::vector<TaskId>& watched() const { return watched_; }
  BootMs until() const { return until_; }  // it has to come again then: its token may have been withdrawn
  bool is_new();                           // true once: nothing was told to it yet

  // `id`: where the viewer goes on if it loses the connection.
  void trouble(const std::string& json, const std::string& id);
  // Tasks that were not changed by hand concern those who watch them.
  void changes(const LiveChanges& changes, const std::set<std::int64_t>& watched, const std::string& id);
  // It is there: what changes from now on is told. Also so that both ends notice a dead connection.
  void ping(const std::string& id);
  void end();

 private:
  void wake();

  const std::string viewer_;
  const std::vector<TaskId> watched_;
  const BootMs until_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::function<void()> wake_;
  std::string id_, trouble_;
  LiveChanges changes_;
  bool begun_ = false, ended_ = false, pinged_ = false, is_known_ = false;
};

}  // namespace rung::http
