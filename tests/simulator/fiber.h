// A function that can wait in the middle for virtual time to pass: a store job, which blocks in each call.
// Thread: one.
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

namespace rung::sim {

class Fiber {
 public:
  // What wait() throws where the fiber was cancelled: nobody but Fiber catches it.
  struct Cancelled {};

  explicit Fiber(std::function<void()> body);
  ~Fiber();  // cancels
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it waits or ends. REQUIRES: not called from within a fiber.
  void resume();
  // It ends at its wait(), by an exception. Does nothing where it has ended.
  void cancel();
  bool done() const { return done_; }

  // The one that runs now. REQUIRES: called within one.
  static Fiber& current();
  // Goes back to who resumed it.
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
