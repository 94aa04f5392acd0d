// What threads that talk to a server have in common: their first call, and pauses between their tries.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "src/core/base/time.h"

namespace rung {

// A thread's first call. It blocks all signals: the main thread handles them, and a write of OpenSSL's could
// raise SIGPIPE here. The name is for ps and gdb.
inline void begin_thread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), name);
}

// Pauses between tries: doubled from `first` to `most`, each shortened at random by up to half, so that many
// instances do not try in step. Thread: one per object.
class Backoff {
 public:
  Backoff(Ms first, Ms most) : first_(first), most_(most), step_(first) {}

  // `least`: if the pauses are shorter, they grow from there.
  Ms next(Ms least = Ms{0}) {
    const Ms longest = std::max(step_, least);
    step_ = std::min(longest * 2, most_);
    return Ms{std::uniform_int_distribution<std::int64_t>(longest.count() / 2, longest.count())(random_)};
  }
  void reset() { step_ = first_; }

 private:
  const Ms first_, most_;
  Ms step_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace rung
