// Lets what arrives one by one wait some ms for more: at a thousand a second a transaction for each two or
// three costs the database three times what one for each twenty does. Thread: the loop's.
#pragma once

#include <functional>
#include <utility>

#include "src/io/loop.h"

namespace rung::bridge {

class Linger {
 public:
  // `go` is called when the wait is over. `most`: how long it takes.
  Linger(io::Loop& loop, Ms most, std::function<void()> go)
      : most_(most), go_(std::move(go)), timer_(loop, [this] {
          over_ = true;
          go_();
        }) {}

  // Something waits: whether it is to wait on. The wait begins with the first call.
  bool hold() {
    if (over_) return false;
    if (!timer_.active()) timer_.start(most_);
    return true;
  }
  // Something is there that must not wait: hold() is false until end().
  void skip() { over_ = true; }
  // A batch has left: the next wait begins anew.
  void end() {
    over_ = false;
    timer_.stop();
  }

 private:
  const Ms most_;
  const std::function<void()> go_;
  bool over_ = false;
  io::Timer timer_;
};

}  // namespace rung::bridge
