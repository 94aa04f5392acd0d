// Asks the management API about queues, on a thread of its own for each question: an answer may take longer
// than a connection can go without a heartbeat. Thread: ask, take and busy from one; stop and join from any.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/management.h"

namespace rung::rabbit {

class QueueLookup {
 public:
  using Answer = Result<std::vector<QueueFacts>>;

  // `done` is called on the thread, when there is something to take. REQUIRES: `options` outlives it.
  QueueLookup(const BrokerOptions& options, std::function<void()> done);
  ~QueueLookup();
  QueueLookup(const QueueLookup&) = delete;
  QueueLookup& operator=(const QueueLookup&) = delete;

  // REQUIRES: not busy(). About these queues, or about all of the virtual host if `names` is empty. Queues
  // that do not exist are left out of the answer.
  void ask(std::vector<std::string> names);
  bool busy() const { return busy_; }  // until take() has returned the answer
  std::optional<Answer> take();
  // Aborts the question, and answers every further one with an error.
  void stop();
  void join();

 private:
  Answer answer(const std::vector<std::string>& names);
  static Answer look(QueueAdmin& admin, const std::vector<std::string>& names);

  const BrokerOptions& options_;
  const std::function<void()> done_;
  bool busy_ = false;  // the asking thread's own
  std::thread thread_;
  std::mutex mutex_;
  std::optional<Answer> answer_;  // guarded by mutex_
  QueueAdmin* admin_ = nullptr;   // guarded by mutex_: the one that is asked at the moment
  bool stopping_ = false;         // guarded by mutex_
};

}  // namespace rung::rabbit
