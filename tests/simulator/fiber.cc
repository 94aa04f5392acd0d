#include "tests/simulator/fiber.h"

#include <utility>

namespace rung::sim {
namespace {

constexpr std::size_t kStack = 256UL * 1024;

Fiber* running = nullptr;
// Stacks of ended fibers, kept for reuse: otherwise each job would allocate one.
std::vector<std::unique_ptr<std::vector<char>>> spare;

std::unique_ptr<std::vector<char>> take_stack() {
  if (spare.empty()) return std::make_unique<std::vector<char>>(kStack);
  auto stack = std::move(spare.back());
  spare.pop_back();
  return stack;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {
  getcontext(&here_);
  here_.uc_stack.ss_sp = stack_->data();
  here_.uc_stack.ss_size = stack_->size();
  here_.uc_link = nullptr;
  makecontext(&here_, &Fiber::enter, 0);
}

Fiber::~Fiber() {
  cancel();
  spare.push_back(std::move(stack_));
}

Fiber& Fiber::current() { return *running; }

void Fiber::enter() { running->run(); }

void Fiber::run() {
  try {
    if (!cancelled_) body_();
  } catch (const Cancelled&) {  // wanted
  }
  done_ = true;
  swapcontext(&here_, &back_);
}

void Fiber::resume() {
  if (done_) return;
  Fiber* const before = std::exchange(running, this);
  swapcontext(&back_, &here_);
  running = before;
}

void Fiber::cancel() {
  if (done_) return;
  cancelled_ = true;
  resume();
}

void Fiber::wait() {
  swapcontext(&here_, &back_);
  if (cancelled_) throw Cancelled{};
}

}  // namespace rung::sim
