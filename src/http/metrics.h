// What /metrics shows, by prometheus-cpp's core. Labels are of a few values each, all known beforehand: no
// queue but those that the config names, no tag, nothing that a message says. Thread: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "src/bridge/vitals.h"
#include "src/core/clock.h"
#include "src/store/store.h"

namespace rung::http {

using Vitals = bridge::Vitals;  // this instance, as it is now

class Metrics {
 public:
  // `group`: "" = the config has none. REQUIRES: `clock` outlives it.
  Metrics(std::string_view version, std::string_view group, const Clock& clock);
  ~Metrics();

  // `seconds`: below 0 where it was refused before anything was done.
  void request(std::string_view route, std::string_view method, int status, double seconds);
  enum class Submitted { created, same, conflict, invalid, failed };
  void submitted(Submitted how, std::int64_t tasks = 1);
  enum class Changed { applied, unchanged, refused, failed };
  void changed(std::string_view what, Changed how);

  // Set before each text(); what the database says, now and then.
  void vitals(const Vitals& vitals, int connections);
  // `queues`: those of the config, which have a label of their own; all others are "(other)".
  void tasks(const std::vector<QueueStat>& by_queue, const std::vector<std::string>& queues);
  // Whether what the database says is older than it may be; then whoever asks gets it (one at a time). The
  // slower it is to get, the longer it holds.
  bool wants_tasks();
  void tasks_took(Ms took);
  void tasks_failed();  // whoever asks next tries again

  std::string text() const;  // in Prometheus's format

 private:
  void lateness(const bridge::Lateness& now);
  struct Families;
  void attachments(const Vitals& vitals);
  const Clock& clock_;
  const std::unique_ptr<Families> families_;
  std::mutex mutex_;
  BootMs fresh_until_{0};  // guarded by mutex_
};

}  // namespace rung::http
