// Threads for calls that block. There are as many as were ever busy at once: idle ones hold stacks and heaps.
// Thread: one, but for join() (any).
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace rung::http {

class Workers {
 public:
  Workers() = default;
  ~Workers() { join(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Throws std::system_error where the first thread cannot be had; without a further one the call waits its
  // turn.
  template <typename Call>
  void post(Call call) {
    grow();
    ++busy_;
    boost::asio::post(context_, std::move(call));
  }
  // A call of post() is over.
  void done() { --busy_; }

  // Waits for all calls. Nothing may be posted afterwards. What a worker has of its own (the connector to the
  // database keeps something for each thread) must not meet the end of the process.
  void join();

 private:
  void grow();

  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> running_{context_.get_executor()};
  std::vector<std::thread> threads_;
  std::size_t busy_ = 0;
};

}  // namespace rung::http
