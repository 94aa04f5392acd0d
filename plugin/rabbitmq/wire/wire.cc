#include "plugin/rabbitmq/wire/wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "src/core/base/secret_file.h"

namespace rung::rabbit {
namespace {

std::string tls_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

std::string os_error(int error) { return std::generic_category().message(error); }

constexpr const char* kClosedByBroker = "the broker closed the connection";

// Whether connect, read or write sees a reset is chance. All report it in the same words, or an unreachable
// broker would be logged again and again in turns.
bool was_reset(int error) { return error == ECONNRESET || error == EPIPE; }

// `error`: an errno, 0 if the operating system gives none.
Error wire_error(int error) {
  return {Error::Kind::transient, error == 0 || was_reset(error) ? kClosedByBroker : os_error(error)};
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// `ip` is not a host name, so there is no DNS lookup.
Result<SocketAddress> socket_address(const std::string& ip, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (const int failed = getaddrinfo(ip.c_str(), std::to_string(port).c_str(), &hints, &list); failed != 0)
    return transient(gai_strerror(failed));
  SocketAddress address;
  std::memcpy(&address.storage, list->ai_addr, list->ai_addrlen);
  address.size = list->ai_addrlen;
  freeaddrinfo(list);
  return address;
}

// Returns a connected socket, or an error.
Result<int> connect_to(const SocketAddress& address, Waker& waker, BootMs deadline) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return transient("socket: " + os_error(errno));
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  int error = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) {
    error = errno;
    while (error == EINPROGRESS) {
      if (waker.sleep(fd, POLLOUT, deadline) != 0) {
        socklen_t size = sizeof error;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      } else if (waker.stopping() || waker.now() >= deadline) {
        error = ETIMEDOUT;
      }
    }
  }
  // If the peer accepted and closed at once, the first read or write reports it.
  if (error == 0 || was_reset(error)) return fd;
  close(fd);
  return transient(os_error(error));
}

// Certificates list hosts and addresses separately; OpenSSL checks either if told which it is.
bool expect_host(SSL* ssl, const std::string& host) {
  unsigned char binary[sizeof(in6_addr)];
  const bool is_address =
      inet_pton(AF_INET, host.c_str(), binary) == 1 || inet_pton(AF_INET6, host.c_str(), binary) == 1;
  if (is_address) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set1_host(ssl, host.c_str()) == 1;
}

Result<std::shared_ptr<SSL_CTX>> load_tls(const BrokerOptions& options) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return permanent("TLS: " + tls_error());
  std::shared_ptr<SSL_CTX> tls(context, SSL_CTX_free);
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) return permanent("TLS: " + tls_error());
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (options.ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) != 1)
      return permanent("cannot use the system's CAs: " + tls_error());
  } else if (SSL_CTX_load_verify_locations(context, options.ca.c_str(), nullptr) != 1) {
    return permanent("cannot read the CA from " + options.ca + ": " + tls_error());
  }
  if (options.cert.empty() != options.key.empty()) {
    return permanent("a client certificate needs both: cert and key");
  }
  if (options.cert.empty()) return tls;
  if (SSL_CTX_use_certificate_chain_file(context, options.cert.c_str()) != 1) {
    return permanent("cannot read the client certificate from " + options.cert + ": " + tls_error());
  }
  // OpenSSL would ask for a key's pass phrase on the terminal: refuse such a key instead.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_PrivateKey_file(context, options.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return permanent("cannot read the client key from " + options.key + ": " + tls_error());
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return permanent("the key in " + options.key + " does not belong to the certificate in " + options.cert);
  }
  return tls;
}

}  // namespace

Result<std::unique_ptr<Wire>> Wire::open(const Address& address, int port, const Access& access, Waker& waker,
                                         BootMs deadline) {
  const auto tls = access.tls();
  if (!tls) return tl::unexpected(tls.error());
  const auto to = socket_address(address.ip, port);
  const auto fd = to ? connect_to(*to, waker, deadline) : tl::unexpected(to.error());
  if (!fd) return transient("connecting to " + address.shown + ": " + fd.error().message);
  std::unique_ptr<Wire> wire(new Wire(*fd));
  if (*tls != nullptr) {
    if (auto shaken = wire->shake_hands(tls->get(), address.url.host, access.verify_host(), waker, deadline);
        !shaken)
      return transient(address.shown + ": TLS: " + shaken.error().message);
  }
  return wire;
}

Result<void> Wire::shake_hands(SSL_CTX* tls, const std::string& host, bool verify, Waker& waker,
                               BootMs deadline) {
  ssl_ = SSL_new(tls);  // which keeps it
  if (ssl_ == nullptr || SSL_set_fd(ssl_, fd_) != 1) return transient(tls_error());
  SSL_set_tlsext_host_name(ssl_, host.c_str());
  if (verify && !expect_host(ssl_, host)) return transient(tls_error());
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(ssl_);
    if (result == 1) return {};
    const int error = SSL_get_error(ssl_, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      const long verdict = SSL_get_verify_result(ssl_);
      if (verdict != X509_V_OK) {
        return transient(std::string("the broker's certificate: ") + X509_verify_cert_error_string(verdict));
      }
      return transient(error == SSL_ERROR_SYSCALL ? kClosedByBroker : tls_error());
    }
    waker.sleep(fd_, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline);
    if (waker.stopping()) return transient("stopping");
    if (waker.now() >= deadline) return transient("no answer");
  }
}

Wire::~Wire() {
  if (ssl_ != nullptr) SSL_free(ssl_);
  close(fd_);
}

Result<std::size_t> Wire::tls_outcome(int result) {
  if (result > 0) return static_cast<std::size_t>(result);
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return std::size_t{0};
    case SSL_ERROR_ZERO_RETURN:
      return transient(kClosedByBroker);
    case SSL_ERROR_SYSCALL:
      return tl::unexpected(wire_error(errno));
    default:
      return transient("TLS: " + tls_error());
  }
}

Result<std::size_t> Wire::read(char* to, std::size_t most) {
  errno = 0;
  if (ssl_ != nullptr) {
    ERR_clear_error();
    return tls_outcome(SSL_read(ssl_, to, static_cast<int>(std::min<std::size_t>(most, INT_MAX))));
  }
  for (;;) {
    const ssize_t n = recv(fd_, to, most, 0);
    if (n > 0) return static_cast<std::size_t>(n);
    if (n == 0) return transient(kClosedByBroker);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno != EINTR) return tl::unexpected(wire_error(errno));
  }
}

Result<std::size_t> Wire::write(const char* from, std::size_t size) {
  errno = 0;
  if (ssl_ != nullptr) {
    ERR_clear_error();
    return tls_outcome(SSL_write(ssl_, from, static_cast<int>(std::min<std::size_t>(size, INT_MAX))));
  }
  for (;;) {
    const ssize_t n = send(fd_, from, size, MSG_NOSIGNAL);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno != EINTR) return tl::unexpected(wire_error(errno));
  }
}

// --- access ---

Result<Url> with_password(const BrokerOptions& options, Url url) {
  if (options.password_file.empty()) return url;
  auto password = read_password_file(options.password_file);
  if (!password) {
    return tl::unexpected(Error{Error::Kind::refused, "broker.password_file (" + options.password_file +
                                                          "): " + password.error().message});
  }
  url.password = *std::move(password);
  return url;
}

Result<BrokerEndpoints> make_endpoints(const BrokerOptions& options, const Clock& clock) {
  BrokerEndpoints endpoints;
  const bool tls = options.urls.front().scheme == "amqps";
  endpoints.access = std::make_unique<Access>(options, tls);
  if (auto loaded = endpoints.access->tls(); !loaded) return tl::unexpected(loaded.error());
  endpoints.addresses =
      std::make_unique<Addresses>(options.urls, usual_port(tls), Addresses::Order::shuffled, clock);
  return endpoints;
}

Result<std::shared_ptr<SSL_CTX>> Access::tls() const {
  if (!tls_) return std::shared_ptr<SSL_CTX>();
  return load_tls(options_);
}

Result<Url> Access::login(Url url) const { return with_password(options_, std::move(url)); }

void Access::serve_only(std::string cluster) {
  const std::lock_guard lock(mutex_);
  if (served_ == cluster) return;
  served_ = std::move(cluster);
  version_.fetch_add(1, std::memory_order_acq_rel);
}

Result<void> Access::accepts(const std::string& cluster, const std::string& address) const {
  const std::lock_guard lock(mutex_);
  if (served_.empty() || served_ == cluster) return {};
  return transient(address + " is broker '" + cluster + "', but this database serves broker '" + served_ +
                   "' (docs/operations.md)");
}

}  // namespace rung::rabbit
