// A response that goes on: server-sent events.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace rung::http {

class EventStream {
 public:
  virtual ~EventStream() = default;
  // `wake` is called, from any thread, when take() may have something. Once, before the first take().
  virtual void begin(std::function<void()> wake) = 0;
  // What is to be sent now, "" = nothing; none: the stream has ended. Must not block. A reader that is too
  // slow misses what is out of date: what waits is bounded.
  virtual std::optional<std::string> take() = 0;
};

}  // namespace rung::http
