#include "src/http/channel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace rung::http {
namespace {

constexpr long kBroken = -1, kTimedOut = -2;

bool wait(int fd, short events, const Clock& clock, BootMs deadline) {
  while (true) {
    const Ms left = deadline - clock.boot();
    if (left <= Ms{0}) return false;
    pollfd p{fd, events, 0};
    const int n = poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

class Plain final : public Channel {
 public:
  Plain(int fd, const Clock& clock) : fd_(fd), clock_(clock) {}
  ~Plain() override { close(fd_); }

  bool open(BootMs) override { return true; }

  long read(char* to, std::size_t most, BootMs deadline) override {
    while (true) {
      const ssize_t n = recv(fd_, to, most, 0);
      if (n >= 0) return n;
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return kBroken;
      if (!wait(fd_, POLLIN, clock_, deadline)) return kTimedOut;
    }
  }

  bool write(const char* from, std::size_t size, BootMs deadline) override {
    while (size > 0) {
      const ssize_t n = send(fd_, from, size, MSG_NOSIGNAL);
      if (n >= 0) {
        from += n;
        size -= static_cast<std::size_t>(n);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait(fd_, POLLOUT, clock_, deadline)) return false;
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  }

  void finish() override { shutdown(fd_, SHUT_WR); }

 private:
  const int fd_;
  const Clock& clock_;
};

class Tls final : public Channel {
 public:
  Tls(int fd, SSL_CTX* ctx, const Clock& clock) : fd_(fd), clock_(clock), ssl_(SSL_new(ctx)) {
    if (ssl_ == nullptr) return;
    SSL_set_fd(ssl_, fd);
    SSL_set_mode(ssl_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  }
  ~Tls() override {
    SSL_free(ssl_);
    close(fd_);
  }

  bool open(BootMs deadline) override {
    return ssl_ != nullptr && turns([this] { return SSL_accept(ssl_); }, deadline) > 0;
  }

  long read(char* to, std::size_t most, BootMs deadline) override {
    const int size = static_cast<int>(std::min<std::size_t>(most, std::numeric_limits<int>::max()));
    return turns([&] { return SSL_read(ssl_, to, size); }, deadline);
  }

  bool write(const char* from, std::size_t size, BootMs deadline) override {
    while (size > 0) {
      const int part = static_cast<int>(std::min<std::size_t>(size, 1 << 20));
      const long n = turns([&] { return SSL_write(ssl_, from, part); }, deadline);
      if (n <= 0) return false;
      from += n;
      size -= static_cast<std::size_t>(n);
    }
    return true;
  }

  void finish() override {
    ERR_clear_error();
    SSL_shutdown(ssl_);
    shutdown(fd_, SHUT_WR);
  }

 private:
  // A call of OpenSSL until it neither wants to read nor to write.
  template <typename Call>
  long turns(const Call& call, BootMs deadline) {
    while (true) {
      ERR_clear_error();
      const int n = call();
      if (n > 0) return n;
      const int why = SSL_get_error(ssl_, n);
      if (why == SSL_ERROR_ZERO_RETURN) return 0;
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return kBroken;
      if (!wait(fd_, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, clock_, deadline)) return kTimedOut;
    }
  }

  const int fd_;
  const Clock& clock_;
  SSL* const ssl_;
};

std::string reason() {
  char text[200] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return text;
}

}  // namespace

bool wait_readable(int fd, int wake, const Clock& clock, BootMs deadline) {
  while (true) {
    const Ms left = std::max(deadline - clock.boot(), Ms{0});
    pollfd fds[] = {{fd, POLLIN, 0}, {wake, POLLIN, 0}};
    const int n = poll(fds, 2, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (n > 0) return fds[0].revents != 0;
    if (n == 0 ? left == Ms{0} : errno != EINTR) return false;
  }
}

std::unique_ptr<Channel> plain_channel(int fd, const Clock& clock) {
  return std::make_unique<Plain>(fd, clock);
}

Result<TlsContext> TlsContext::load(const std::string& cert, const std::string& key) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> ctx(SSL_CTX_new(TLS_server_method()), [](SSL_CTX* p) { SSL_CTX_free(p); });
  if (ctx == nullptr) return permanent("TLS: " + reason());
  SSL_CTX_set_min_proto_version(ctx.get(), TLS1_2_VERSION);
  // TLS 1.3 has only authenticated encryption; of TLS 1.2 the suites with it and with forward secrecy.
  if (SSL_CTX_set_cipher_list(ctx.get(), "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
    return permanent("TLS: " + reason());
  SSL_CTX_set_options(ctx.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  // Never asked for on a terminal: nobody sits there.
  SSL_CTX_set_default_passwd_cb(ctx.get(), [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_chain_file(ctx.get(), cert.c_str()) != 1)
    return permanent("http.cert: " + cert + " holds no certificate (PEM): " + reason());
  if (SSL_CTX_use_PrivateKey_file(ctx.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
    return permanent("http.key: " + key +
                     " holds no private key (PEM, without a password) that fits http.cert: " + reason());
  return TlsContext(std::move(ctx));
}

std::unique_ptr<Channel> TlsContext::channel(int fd, const Clock& clock) const {
  return std::make_unique<Tls>(fd, ctx_.get(), clock);
}

}  // namespace rung::http
