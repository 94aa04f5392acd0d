// A byte stream to the broker: TCP, or TLS over it. Never blocks, except in open(), which is bounded.
//
// Why not rabbitmq-c's own sockets: their writes block forever if the broker stops reading (an alarm), they
// need three sends per message, and their host check does not support IP addresses. We use only the library's
// protocol code. Thread: one thread per object. Tls is immutable and may be shared.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/waker.h"
#include "src/core/base/addresses.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

// The TLS configuration, as its files were when it was loaded.
class Tls {
 public:
  // Permanent errors: a file is missing or is no certificate, a key does not match.
  static Result<std::shared_ptr<Tls>> load(const BrokerOptions& options);
  ~Tls() { SSL_CTX_free(context_); }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  SSL_CTX* context() const { return context_; }
  bool verify_host() const { return verify_host_; }

 private:
  explicit Tls(SSL_CTX* context, bool verify_host) : context_(context), verify_host_(verify_host) {}
  SSL_CTX* const context_;
  const bool verify_host_;
};

class Wire {
 public:
  // Connects to a resolved address and performs the handshake. `tls` may be null. Gives up at `deadline` or
  // when `waker` says stop.
  static Result<std::unique_ptr<Wire>> open(const Address& address, int port, std::shared_ptr<Tls> tls,
                                            Waker& waker, BootMs deadline);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  int fd() const { return fd_; }

  // Return the number of bytes; 0 = would block. An error means that the stream has ended.
  Result<std::size_t> read(char* to, std::size_t most);
  Result<std::size_t> write(const char* from, std::size_t size);

 private:
  Wire(int fd, std::shared_ptr<Tls> tls) : fd_(fd), tls_(std::move(tls)) {}
  Result<void> shake_hands(const std::string& host, Waker& waker, BootMs deadline);
  Result<std::size_t> tls_outcome(int result);

  const int fd_;
  const std::shared_ptr<Tls> tls_;  // nullptr: plain TCP
  SSL* ssl_ = nullptr;
};

}  // namespace rung::rabbit
