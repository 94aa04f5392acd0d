// A connection's bytes, plain or TLS, each call with a deadline. The socket is non-blocking and the channel's
// own. Thread: one, but for interrupt().
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "src/core/clock.h"
#include "src/core/result.h"

struct ssl_ctx_st;

namespace rung::http {

class Channel {
 public:
  virtual ~Channel() = default;
  // Before anything else: the TLS handshake. false: it failed, or the deadline passed.
  virtual bool open(BootMs deadline) = 0;
  // Bytes; 0 = the other side has ended; -1 = broken; -2 = the deadline passed.
  virtual long read(char* to, std::size_t most, BootMs deadline) = 0;
  // All of it, or false.
  virtual bool write(const char* from, std::size_t size, BootMs deadline) = 0;
  // Says to the other side that nothing more comes.
  virtual void finish() = 0;
};

// REQUIRES, here and below: `clock` outlives it.
std::unique_ptr<Channel> plain_channel(int fd, const Clock& clock);

// A server's certificate chain and key (PEM), TLS 1.2 and later.
class TlsContext {
 public:
  static Result<TlsContext> load(const std::string& cert, const std::string& key);
  std::unique_ptr<Channel> channel(int fd, const Clock& clock) const;

 private:
  explicit TlsContext(std::shared_ptr<ssl_ctx_st> ctx) : ctx_(std::move(ctx)) {}
  std::shared_ptr<ssl_ctx_st> ctx_;
};

// Whether `fd` became readable (or ended) before the deadline, and before `wake` did.
bool wait_readable(int fd, int wake, const Clock& clock, BootMs deadline);

}  // namespace rung::http
