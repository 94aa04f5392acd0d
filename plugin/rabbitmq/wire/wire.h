// A byte stream to the broker: TCP, or TLS over it. Never blocks, except in open(), which is bounded.
//
// Why not rabbitmq-c's own sockets: their writes block forever if the broker stops reading (an alarm), they
// need three sends per message, and their host check does not support IP addresses. We use only the library's
// protocol code. Thread: one thread per object, where nothing else is said.
#pragma once

#include <openssl/ssl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "plugin/broker_options.h"
#include "src/core/base/addresses.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/base/url.h"

namespace rung::rabbit {

// Wakes a thread that sleeps in poll(): for new work, to drop the connection, or to stop.
// Thread: wake(), drop(), stop() and now() from any; the rest from the thread that sleeps.
class Waker {
 public:
  // REQUIRES: `clock` outlives it.
  explicit Waker(const Clock& clock) : clock_(clock), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Waker() { close(fd_); }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  const Clock& clock() const { return clock_; }
  BootMs now() const { return clock_.boot(); }

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = write(fd_, &one, sizeof one);
  }
  // The thread should have ended by `deadline`.
  void stop(BootMs deadline) {
    deadline_.store(deadline.ms, std::memory_order_relaxed);
    stopping_.store(true, std::memory_order_release);
    wake();
  }
  // Orders the thread to drop the connection; dropped() returns the order once.
  void drop(std::string reason) {
    {
      const std::lock_guard lock(mutex_);
      drop_why_ = std::move(reason);
    }
    wake();
  }
  std::optional<std::string> dropped() {
    const std::lock_guard lock(mutex_);
    return std::exchange(drop_why_, std::nullopt);
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  BootMs deadline() const { return {deadline_.load(std::memory_order_relaxed)}; }

  // Sleeps until `fd` (-1 = none) is ready for `events`, wake() was called, or `until` is reached. Returns
  // what `fd` is ready for. Consumes the wake-up: after each call, check everything that may have woken you.
  short sleep(int fd, short events, BootMs until) {
    pollfd fds[2] = {{.fd = fd_, .events = POLLIN, .revents = 0}, {.fd = fd, .events = events, .revents = 0}};
    const std::int64_t left = (until - now()).count();
    poll(fds, fd >= 0 ? 2 : 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (fds[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto n = read(fd_, &count, sizeof count);
    }
    return fds[1].revents;
  }

 private:
  const Clock& clock_;
  const int fd_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> deadline_{0};  // BootMs
  std::mutex mutex_;
  std::optional<std::string> drop_why_;  // guarded by mutex_
};

// What a connection needs besides an address, shared by all connections of a broker: password and TLS files,
// which are read anew for each login, because they are replaced while the program runs; and which broker may
// be served at all. Thread: any; login() and tls() read files.
class Access {
 public:
  // REQUIRES: `options` outlives it.
  Access(const BrokerOptions& options, bool tls) : options_(options), tls_(tls) {}

  bool uses_tls() const { return tls_; }
  // The TLS configuration, as its files are now, for any threads; nullptr: amqp://. Permanent errors: a file
  // is missing or is no certificate, a key does not match.
  Result<std::shared_ptr<SSL_CTX>> tls() const;
  bool verify_host() const { return options_.verify_host; }
  // The URL with today's password. Error: refused, the password file cannot be read.
  Result<Url> login(Url url) const;

  // Broker::serve_only(). "" = any.
  void serve_only(std::string cluster);
  // Grows with each change, so that it is cheap to notice one.
  std::uint32_t version() const { return version_.load(std::memory_order_acquire); }
  // Error: this broker must not be served.
  Result<void> accepts(const std::string& cluster, const std::string& address) const;

 private:
  const BrokerOptions& options_;
  const bool tls_;
  std::atomic<std::uint32_t> version_{0};
  mutable std::mutex mutex_;
  std::string served_;  // guarded by mutex_
};

class Wire {
 public:
  // Connects to a resolved address and performs the handshake. Gives up at `deadline` or when `waker` says
  // stop. Permanent errors: as Access::tls().
  static Result<std::unique_ptr<Wire>> open(const Address& address, int port, const Access& access,
                                            Waker& waker, BootMs deadline);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  int fd() const { return fd_; }

  // Return the number of bytes; 0 = would block. An error means that the stream has ended.
  Result<std::size_t> read(char* to, std::size_t most);
  Result<std::size_t> write(const char* from, std::size_t size);

 private:
  explicit Wire(int fd) : fd_(fd) {}
  Result<void> shake_hands(SSL_CTX* tls, const std::string& host, bool verify, Waker& waker, BootMs deadline);
  Result<std::size_t> tls_outcome(int result);

  const int fd_;
  SSL* ssl_ = nullptr;  // nullptr: plain TCP
};

inline int usual_port(bool tls) { return tls ? 5671 : 5672; }

// The broker's addresses, and what a login to them needs.
struct BrokerEndpoints {
  std::unique_ptr<Addresses> addresses;
  std::unique_ptr<Access> access;
};
// Reads the URLs, and once the TLS files; does not look up host names.
// Permanent errors: a URL that does not parse, a missing file.
// REQUIRES: all URLs are amqp:// or all amqps://; `options` and `clock` outlive what it returns.
Result<BrokerEndpoints> make_endpoints(const BrokerOptions& options, const Clock& clock);

// The URL with the password of broker.password_file, if the config names one. Error: refused.
Result<Url> with_password(const BrokerOptions& options, Url url);

}  // namespace rung::rabbit
