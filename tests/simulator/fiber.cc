#include "tests/simulator/fiber.h"

#include <utility>

// AddressSanitizer has to know which stack is in use. Weak: null where nothing is sanitized.
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** frames, const void* stack, std::size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* frames, const void** stack_before,
                                                   std::size_t* size_before);
}

namespace rung::sim {
namespace {

struct Stack {
  const void* begin = nullptr;
  std::size_t size = 0;
};
Stack resumer;  // of the code that called resume()

// On the stack that was switched to. `frames`: what the switch away from it gave.
void tell_arrival(void* frames, Stack& before) {
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(frames, &before.begin, &before.size);
}

// swapcontext(). Returns once `from` is switched to again; `before`: the stack that this was done on.
void switch_stack(ucontext_t& from, const ucontext_t& to, Stack onto, Stack& before) {
  void* frames = nullptr;
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(&frames, onto.begin, onto.size);
  swapcontext(&from, &to);
  tell_arrival(frames, before);
}

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

void Fiber::enter() { running->run(); }

void Fiber::run() {
  tell_arrival(nullptr, resumer);
  try {
    if (!cancelled_) body_();
  } catch (const Cancelled&) {  // wanted
  }
  done_ = true;
  switch_stack(here_, back_, resumer, resumer);
}

void Fiber::resume() {
  if (done_) return;
  Fiber* const before = std::exchange(running, this);
  Stack fiber{stack_->data(), stack_->size()};
  switch_stack(back_, here_, fiber, fiber);
  running = before;
}

void Fiber::cancel() {
  if (done_) return;
  cancelled_ = true;
  resume();
}

void Fiber::wait() {
  switch_stack(here_, back_, resumer, resumer);
  if (cancelled_) throw Cancelled{};
}

}  // namespace rung::sim
