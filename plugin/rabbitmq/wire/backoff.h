// Pauses between connection attempts: 0.1 s, doubled up to 5 s, each shortened at random by up to half, so
// that many instances do not reconnect in step. If waiting alone will not fix the error, pauses start at 2 s.
// Thread: one thread per object.
#pragma once

#include <algorithm>
#include <random>

#include "plugin/rabbitmq/wire/waker.h"
#include "src/core/base/time.h"

namespace rung::rabbit {

class Backoff {
 public:
  Ms next(bool hopeless = false) {
    if (hopeless) step_ = std::max(step_, Ms{2000});
    const Ms most = step_;
    step_ = std::min(step_ * 2, Ms{5000});
    return Ms{std::uniform_int_distribution<std::int64_t>(most.count() / 2, most.count())(random_)};
  }
  void reset() { step_ = Ms{100}; }

 private:
  Ms step_{100};
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace rung::rabbit
