// Starts a thread that receives no signals (the main thread handles them; SIGPIPE, which OpenSSL's writes can
// raise, is handled by nobody) and that has a name in ps and gdb.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace rung::rabbit {

template <typename Body>
std::thread start_thread(const char* name, Body&& body) {
  return std::thread([name, body = std::forward<Body>(body)] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

}  // namespace rung::rabbit
