// Which queues may be published to: the pauses by hand, read from the database twice a second. While the
// database cannot be read, the pauses read last apply; a pause with an end ends by the database's clock.
// Before the first read nothing is known, and so it is after our leases were lost (the process may have been
// suspended), until the next read: publish nothing meanwhile. Thread: the loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/bridge/store_jobs.h"
#include "src/core/db_clock.h"
#include "src/io/loop.h"
#include "src/store/gates.h"

namespace rung::bridge {

class Gates {
 public:
  using Names = std::set<std::string, std::less<>>;

  // `changed`: known() or closed() may have changed.
  Gates(io::Loop& loop, StoreJobs& jobs, DbClock& clock, std::function<void()> changed);

  void start();
  void stop();
  // Our leases were lost: what we know may be old.
  void invalidate();

  bool known() const { return known_; }
  const Names& closed() const { return closed_; }  // queues that get nothing
  // When the queue's gate was closed most recently; `to` is now while it is closed. None: not within the last
  // month. Times of the database.
  struct Span {
    EpochMs from, to;
  };
  std::optional<Span> last_closed(std::string_view queue) const;
  // How long a task of the queue that was due at `due` has waited behind the gate since, as far as the most
  // recent closing tells.
  Ms waited(std::string_view queue, EpochMs due) const;

 private:
  void tick();
  void read();
  void arrived(const std::vector<Pause>& pauses, bool fresh);
  void check_ends();
  bool update_closed();
  bool is_closed(const Pause& pause) const;

  StoreJobs& jobs_;
  DbClock& clock_;
  const std::function<void()> changed_;
  std::map<std::string, Pause, std::less<>> pauses_;  // as read last
  Names closed_;
  bool known_ = false;
  bool reading_ = false;
  int generation_ = 0;  // a read that began before the latest says nothing about now
  io::Timer tick_;
  io::Timer end_;  // of the pause that ends next
};

}  // namespace rung::bridge
