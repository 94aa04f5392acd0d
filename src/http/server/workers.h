// Threads for blocking calls. Created only as needed, as many as were ever busy at once: idle ones hold
// stacks and heaps.
// Thread: one, except join() (any).
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

  // Throws std::system_error if the first thread cannot be created; if a further one cannot, the call waits
  // its turn.
  template <typename Call>
  void post(Call call) {
    grow();
    ++busy_;
    boost::asio::post(context_, std::move(call));
  }
  // A call posted with post() has ended.
  void done() { --busy_; }

  // Waits for all calls. Nothing may be posted afterwards. A worker's thread-local data (the database
  // connector keeps some for each thread) must be gone before the process ends.
  void join();

 private:
  void grow();

  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> running_{context_.get_executor()};
  std::vector<std::thread> threads_;
  std::size_t busy_ = 0;
};

}  // namespace rung::http
