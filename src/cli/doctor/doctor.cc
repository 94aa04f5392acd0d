// rung doctor: runs the checks and prints what they found. Here: the checks of this machine, whether the HTTP
// address is free, and how long certificates are valid. (Loading the config warns of secrets that others can
// read.)
#include "src/cli/doctor/doctor.h"

#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/net/http_client.h"
#include "src/sidecar/parts.h"

namespace rung::cli {
namespace {

void check_listen(const HttpOptions& http, Findings& out) {
  const std::string name = "http.listen";
  if (http.listen.empty()) return out.skip(name, "http.listen is not set");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(http.port);
  if (const int failed = getaddrinfo(http.host.c_str(), port.c_str(), &hints, &found); failed != 0)
    return out.wrong(name, http.listen + ": " + gai_strerror(failed), "correct http.listen");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const int why = bind(fd, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  if (fd >= 0) close(fd);
  if (why == 0) return out.ok(name, http.listen + " is free");
  if (why != EADDRINUSE)
    return out.wrong(name, http.listen + ": " + std::strerror(why), "correct http.listen");
  constexpr Ms kTimeout{2000};
  net::HttpClient client({.base = sidecar::own_url(http),
                          .verify = false,  // nothing secret is sent
                          .connecting = kTimeout,
                          .answering = kTimeout});
  if (client.send("GET", "/healthz").status == 200)
    return out.ok(name, "a sidecar answers at " + http.listen);
  out.wrong(name, http.listen + " is in use by another program", "choose another port for http.listen");
}

// Of a chain the first one: the program's own.
void check_certificate(const std::string& path, const char* name, Findings& out) {
  if (path.empty()) return;
  const std::unique_ptr<BIO, int (*)(BIO*)> file(BIO_new_file(path.c_str(), "r"), BIO_free);
  const std::unique_ptr<X509, void (*)(X509*)> cert(
      file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  int days = 0, seconds = 0;
  if (cert == nullptr || ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(cert.get())) != 1)
    return out.wrong(name, path + " cannot be read here as a certificate (PEM)", "correct the file");
  const Ms left = std::chrono::hours{24} * days + std::chrono::seconds{seconds};
  if (left > std::chrono::hours{24 * 14}) return out.ok(name, path + " is valid for " + humanise(left));
  const char* fix = "renew it, and reload the sidecars";
  if (left <= Ms{0}) return out.wrong(name, path + " has expired", fix);
  out.warn(name, path + " expires in " + humanise(left), fix);
}

using Status = Finding::Status;

struct StatusText {
  const char* word;
  Colour colour;
};
StatusText status_text(Status status) {
  switch (status) {
    case Status::ok:
      return {"ok", Colour::green};
    case Status::warn:
      return {"warn", Colour::yellow};
    case Status::wrong:
      return {"wrong", Colour::red};
    case Status::skipped:
      return {"skipped", Colour::dim};
  }
  return {"", Colour::none};
}

std::ptrdiff_t count(const std::vector<Finding>& findings, Status status) {
  return std::ranges::count(findings, status, &Finding::status);
}

std::string to_text(const std::vector<Finding>& findings) {
  const Terminal terminal = Terminal::of_stdout();
  std::string out;
  for (const Finding& f : findings) {
    std::string label = status_text(f.status).word;
    label.resize(8, ' ');
    std::string name = f.name;
    if (name.size() < 24) name.resize(24, ' ');
    out += paint(label, status_text(f.status).colour, terminal) + name + " " + one_line(f.what) + "\n";
    if (!f.fix.empty()) out += "          fix: " + one_line(f.fix) + "\n";
  }
  out += "\n" + std::to_string(count(findings, Status::ok)) + " ok, " +
         std::to_string(count(findings, Status::warn)) + " warnings, " +
         std::to_string(count(findings, Status::wrong)) + " wrong, " +
         std::to_string(count(findings, Status::skipped)) + " skipped\n";
  return out;
}

std::string findings_json(const std::vector<Finding>& findings) {
  Json lines = Json::array();
  for (const Finding& f : findings)
    lines.push_back({{"name", f.name},
                     {"status", status_text(f.status).word},
                     {"what", f.what},
                     {"fix", api::text_or_null(f.fix)}});
  return dump(Json{{"healthy", count(findings, Status::wrong) == 0}, {"checks", lines}}) + "\n";
}

int run() {
  const Config config = load(ConfigFor::check);
  if (!config.groups.empty() && config.groups.own.empty())
    throw Failed(kUserError, which_group(config.groups));
  Findings out;
  out.ok("config", find_config() + " is valid");
  const SystemClock clock;
  const auto probe = check_broker(config, clock, out);
  check_database(config, clock, out);
  check_ownership(config, clock, probe.get(), out);
  check_collector(config, out);
  check_identity_provider(config, out);
  check_listen(config.http, out);
  check_certificate(config.http.cert, "files.http_cert", out);
  check_certificate(config.broker.cert, "files.broker_cert", out);
  check_certificate(config.store.cert, "files.store_cert", out);
  print(given().json ? findings_json(out.all) : to_text(out.all));
  if (std::ranges::any_of(out.all, &Finding::unreachable)) return kUnreachable;
  return count(out.all, Status::wrong) == 0 ? kSuccess : kUserError;
}

}  // namespace

void add_doctor(CLI::App& app, int* exit) {
  CLI::App& c = add_command(
      app, "doctor", "Connects to all configured services and reports problems",
      "Examples:\n"
      "  rung doctor\n"
      "  rung doctor --json\n"
      "Each line is ok, warn, wrong or skipped, followed by a command that fixes it. It changes nothing\n"
      "on the servers. Exit code 1 if anything is wrong: something that keeps Rung from working; 2 if a "
      "service is not reached.",
      Takes::json);
  c.callback([exit] { *exit = run(); });
}

}  // namespace rung::cli
