// A function that can suspend itself until some virtual time has passed. Used for store jobs, which block in
// each call.
// Thread: one.
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

namespace rung::sim {

class Fiber {
 public:
  // Thrown by wait() if the fiber was cancelled; only Fiber catches it.
  struct Cancelled {};

  explicit Fiber(std::function<void()> body);
  ~Fiber();  // cancels
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it waits or ends. REQUIRES: not called from within a fiber.
  void resume();
  // Ends it at its wait(), by an exception. Does nothing if it has ended.
  void cancel();
  bool done() const { return done_; }

  // Returns to the caller of resume().
  void wait();

 private:
  static void enter();
  void run();

  std::function<void()> body_;
  std::unique_ptr<std::vector<char>> stack_;
  ucontext_t here_{}, back_{};
  bool cancelled_ = false, done_ = false;
};

}  // namespace rung::sim
