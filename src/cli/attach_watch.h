// Asks the management API again and again which queues are attached, and hands what it says to the bridge.
// Thread: an object is the loop's; the questions, which may be slow or without an answer, have a thread of
// their own.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/management.h"
#include "src/bridge/attachments.h"
#include "src/io/uv_loop.h"

namespace rung::cli {

class AttachWatch {
 public:
  // Both are called on the loop. `queues`: which to look at.
  using Queues = std::function<std::vector<std::string>()>;
  using Found = std::function<void(const bridge::AttachmentLook&)>;
  AttachWatch(io::Loop& loop, BrokerOptions broker, Queues queues, Found found);
  // Waits for the question under way: its connecting is bounded by kTimeout, its answer is not waited for.
  ~AttachWatch();
  AttachWatch(const AttachWatch&) = delete;
  AttachWatch& operator=(const AttachWatch&) = delete;

  // Looks now, then every `every`.
  void start(Ms every);

  // Looks now, too; after the look that is under way.
  void look_now() { ask(); }

  static constexpr Ms kTimeout{std::chrono::seconds{2}};  // for each of connecting and answering

 private:
  void ask();
  void work();
  bridge::AttachmentLook look(const std::vector<std::string>& queues);

  io::Loop& loop_;
  const BrokerOptions broker_;
  const std::string vhost_;
  const Queues queues_;
  const Found found_;
  io::Timer timer_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::optional<std::vector<std::string>> wanted_;  // guarded by mutex_; none = nothing is asked
  std::unique_ptr<rabbit::QueueAdmin> admin_;       // guarded by mutex_, but for calls of its own thread
  bool stopping_ = false;                           // guarded by mutex_
  std::thread thread_;
};

// "rung attach QUEUE", quoted for a shell.
std::string attach_command(const std::string& queue);

}  // namespace rung::cli
