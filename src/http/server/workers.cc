#include "src/http/server/workers.h"

#include <system_error>

namespace rung::http {

void Workers::grow() {
  if (busy_ < threads_.size()) return;
  try {
    threads_.emplace_back([this] { context_.run(); });
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;
  }
}

void Workers::join() {
  running_.reset();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace rung::http
