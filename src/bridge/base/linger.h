// Delays items that arrive one by one for some ms so that they form batches: at a thousand per second, a
// transaction for every two or three costs the database three times as much as one for every twenty. Thread:
// the loop's.
#pragma once

#include <functional>
#include <utility>

#include "src/io/loop.h"

namespace rung::bridge {

class Linger {
 public:
  // Calls `go` when the wait is over. `most`: how long it lasts.
  Linger(io::Loop& loop, Ms most, std::function<void()> go)
      : most_(most), go_(std::move(go)), timer_(loop, [this] {
          over_ = true;
          go_();
        }) {}

  // Whether the waiting items should wait longer. The first call begins the wait.
  bool hold() {
    if (over_) return false;
    if (!timer_.active()) timer_.start(most_);
    return true;
  }
  // For an item that must not wait: hold() is false until end().
  void skip() { over_ = true; }
  // A batch has left: starts over.
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
