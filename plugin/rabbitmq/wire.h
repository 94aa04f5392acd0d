// A stream of bytes to the broker: TCP, or TLS over it. Never blocks, except in open(), which is bounded.
//
// Why not rabbitmq-c's own sockets: its writes wait for ever when the broker stops reading (an alarm), it
// sends three times a message, and its host check knows no IP addresses. Of the library we use what knows the
// protocol. Thread: one thread an object. Tls is immutable and may be shared.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <string>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/waker.h"
#include "src/core/addresses.h"
#include "src/core/result.h"

namespace rung::rabbit {

// What TLS needs, read from files once.
class Tls {
 public:
  // Permanent errors: a file that is not there or is no certificate, a key that does not fit.
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
  // Connects to an address whose ip is known, and shakes hands. `tls` may be null. Gives up at `deadline` or
  // when `waker` says stop.
  static Result<std::unique_ptr<Wire>> open(const Address& address, int port, const Tls* tls, Waker& waker,
                                            BootMs deadline);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  int fd() const { return fd_; }

  // Bytes moved; 0 = would block. An error means that the stream is over.
  Result<std::size_t> read(char* to, std::size_t most);
  Result<std::size_t> write(const char* from, std::size_t size);

 private:
  explicit Wire(int fd) : fd_(fd) {}
  Result<void> shake_hands(const std::string& host, const Tls& tls, Waker& waker, BootMs deadline);
  Result<std::size_t> tls_outcome(int result);

  const int fd_;
  SSL* ssl_ = nullptr;
};

}  // namespace rung::rabbit
