// Checks of this machine: whether the HTTP address is free, and who can read files with secrets.
#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "plugin/rabbitmq/topology/attachment.h"
#include "src/cli/doctor/doctor.h"
#include "src/cli/shared/text.h"
#include "src/core/base/url.h"

namespace rung::cli {
namespace {

class Socket {
 public:
  explicit Socket(const addrinfo& to) : fd_(socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval two_seconds{2, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &two_seconds, sizeof two_seconds);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &two_seconds, sizeof two_seconds);
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Whether a sidecar answers there, without TLS.
bool answers_healthz(const addrinfo& to) {
  const Socket socket(to);
  constexpr std::string_view kAsk = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (connect(socket.fd(), to.ai_addr, to.ai_addrlen) != 0) return false;
  if (send(socket.fd(), kAsk.data(), kAsk.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kAsk.size()))
    return false;
  std::string answer(4096, '\0');
  const ssize_t got = recv(socket.fd(), answer.data(), answer.size(), 0);
  return got > 0 && answer.starts_with("HTTP/1.1 200");
}

Finding check_listen(const HttpOptions& http) {
  if (http.listen.empty()) return skipped("http.listen", "http.listen is not set");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(http.port);
  if (const int failed = getaddrinfo(http.host.c_str(), port.c_str(), &hints, &found); failed != 0)
    return wrong("http.listen", http.listen + ": " + gai_strerror(failed), "correct http.listen");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  const Socket socket(*found);
  const int yes = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(socket.fd(), found->ai_addr, found->ai_addrlen) == 0)
    return good("http.listen", http.listen + " is free");
  const int why = errno;
  if (why != EADDRINUSE)
    return wrong("http.listen", http.listen + ": " + std::strerror(why), "correct http.listen");
  if (!http.cert.empty())
    return warning("http.listen", http.listen + " is in use", "nothing to do if this is the sidecar");
  if (answers_healthz(*found)) return good("http.listen", "a sidecar answers at " + http.listen);
  return wrong("http.listen", http.listen + " is in use by another program",
               "choose another port for http.listen");
}

void check_file(const std::string& path, const char* name, const char* content, Findings& all) {
  if (path.empty()) return;
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) {
    all.push_back(wrong(name, path + " cannot be read here: " + std::strerror(errno),
                        "create it, or run rung doctor as the sidecar's user"));
  } else if ((about.st_mode & S_IROTH) != 0) {
    all.push_back(warning(name,
                          path + " contains " + content + " and is readable by every user of this machine",
                          "chmod o-rwx " + rabbit::shell_quote(path)));
  } else {
    all.push_back(good(name, path + " is not world-readable"));
  }
}

// Of a chain the first one: the program's own.
void check_certificate(const std::string& path, const char* name, Findings& all) {
  if (path.empty()) return;
  const std::unique_ptr<BIO, int (*)(BIO*)> file(BIO_new_file(path.c_str(), "r"), BIO_free);
  const std::unique_ptr<X509, void (*)(X509*)> cert(
      file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  int days = 0, seconds = 0;
  if (cert == nullptr || ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(cert.get())) != 1)
    return all.push_back(
        wrong(name, path + " cannot be read here as a certificate (PEM)", "correct the file"));
  const Ms left = std::chrono::hours{24} * days + std::chrono::seconds{seconds};
  if (left > std::chrono::hours{24 * 14})
    return all.push_back(good(name, path + " is valid for " + humanise(left)));
  const bool over = left <= Ms{0};
  all.push_back((over ? wrong : warning)(name,
                                         path + (over ? " has expired" : " expires in " + humanise(left)),
                                         "renew it, and reload the sidecars"));
}

// The loader replaces the password in the URLs by its content and does not keep its name.
std::string broker_password_file(const Config& config, const std::string& config_path) {
  const auto key = config.at_start.find("broker.password_file");
  if (key == config.at_start.end() || key->second.value.empty()) return {};
  const std::string& file = key->second.value;
  const auto slash = config_path.rfind('/');
  return file.starts_with('/') || slash == std::string::npos ? file : config_path.substr(0, slash + 1) + file;
}

bool has_password(const std::string& text, const std::vector<std::string>& others = {}) {
  const auto urls = parse_urls(text, others);
  return urls && std::ranges::any_of(*urls, [](const Url& url) { return !url.password.empty(); });
}

}  // namespace

Findings check_machine(const Config& config, const std::string& config_path) {
  Findings all = {check_listen(config.http)};
  if (has_password(config.broker.url, config.broker.other_urls) ||
      has_password(config.store.url, config.store.other_urls) ||
      has_password(config.broker.rabbitmq.management))
    check_file(config_path, "files.config", "a password, unless it comes from the environment,", all);
  check_file(broker_password_file(config, config_path), "files.broker_password", "a password", all);
  check_file(config.store.password_file, "files.password", "a password", all);
  check_file(config.http.token_file, "files.token", "a token", all);
  check_file(config.http.read_token_file, "files.read_token", "a token", all);
  check_file(config.http.tokens_file, "files.tokens", "tokens", all);
  check_certificate(config.http.cert, "files.http_cert", all);
  check_certificate(config.broker.cert, "files.broker_cert", all);
  check_certificate(config.store.cert, "files.store_cert", all);
  check_file(config.http.key, "files.http_key", "a private key", all);
  check_file(config.broker.key, "files.broker_key", "a private key", all);
  check_file(config.store.key, "files.store_key", "a private key", all);
  return all;
}

}  // namespace rung::cli
