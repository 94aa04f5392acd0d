// What concerns several keys at once, and the files that hold secrets.
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "src/config/draft.h"
#include "src/core/url.h"

namespace rung::confile {
namespace {

constexpr std::size_t kMostOfPassword = 4096;

class Completion {
 public:
  Completion(Draft& draft, Problems& problems) : draft_(draft), config_(draft.config), problems_(problems) {}

  void run() {
    required("broker.url", "amqp://user:password@host:port/%2f");
    required("store.url", "mysql://user:password@host:port/schema");
    broker_tls();
    store_tls();
    schema();
    heartbeat_and_lease();
    node();
    password("broker", draft_.broker_password_file, config_.broker.url);
    password("store", config_.store.password_file, config_.store.url);
    delays();
    http();
  }

 private:
  // From an exchange that Rung declares to one that it only publishes to, and never in a circle.
  void delays() {
    const std::string own = config_.broker.prefix + ".";
    for (std::size_t i = 0; i < draft_.delays.size(); ++i) {
      const DelayDraft& one = draft_.delays[i];
      if (one.broken) continue;
      const std::string path = "delays[" + std::to_string(i + 1) + "]";
      if (!one.from || !one.to) {
        problems_.add(one.mark, path + ": " + (one.from ? "to" : "from") +
                                    " is missing: write { from: EXCHANGE, to: EXCHANGE }");
      } else if (one.from->starts_with("amq.") || one.from->starts_with(own)) {
        problems_.add(one.from_mark, path + ".from: exchanges that begin with amq. or " + own +
                                         " are the broker's or Rung's own");
      } else if (*one.from == *one.to) {
        problems_.add(one.to_mark,
                      path + ".to: it is the exchange that it comes from: the message would go round");
      } else if (one.to->starts_with(own)) {
        problems_.add(one.to_mark, path + ".to: exchanges that begin with " + own + " are Rung's own");
      } else if (!config_.delays.emplace(*one.from, *one.to).second) {
        problems_.add(one.from_mark, path + ".from: given twice");
      }
    }
    for (std::size_t i = 0; i < draft_.delays.size(); ++i) {
      const DelayDraft& one = draft_.delays[i];
      if (one.from && one.to && *one.from != *one.to && config_.delays.contains(*one.to))
        problems_.add(one.to_mark, "delays[" + std::to_string(i + 1) +
                                       "].to: it is the from of another: write where it shall end up");
    }
    for (const auto& [from, to] : config_.delays) config_.broker.delay_exchanges.push_back(from);
    config_.broker.consume_delay = true;
  }

  // Given, and its value taken.
  bool has(std::string_view path) const {
    const auto it = draft_.given.find(path);
    return it != draft_.given.end() && it->second.ok;
  }
  // Left out, or given and taken: the value in the config can be judged.
  bool sound(std::string_view path) const {
    const auto it = draft_.given.find(path);
    return it == draft_.given.end() || it->second.ok;
  }
  Mark mark(std::string_view path) const {
    const auto it = draft_.given.find(path);
    return it != draft_.given.end() ? it->second.mark : Mark{};
  }
  void problem(std::string_view path, std::string what) {
    problems_.add(mark(path), std::string(path) + ": " + std::move(what));
  }

  void required(std::string_view path, std::string_view example) {
    if (draft_.given.contains(path)) return;
    const auto section = path.substr(0, path.find('.'));
    problems_.add(mark(section), std::string(path) + " is missing: write " + std::string(section) +
                                     ": { url: \"" + std::string(example) + "\" }");
  }

  // A client certificate is of two files.
  void pair(const std::string& section) {
    const std::string cert = section + ".cert", key = section + ".key";
    if (draft_.given.contains(cert) && !draft_.given.contains(key))
      problem(cert, "it needs " + key + " beside it");
    if (draft_.given.contains(key) && !draft_.given.contains(cert))
      problem(key, "it needs " + cert + " beside it");
  }

  void broker_tls() {
    pair("broker");
    if (!has("broker.url")) return;
    const auto url = parse_url(config_.broker.url);
    const bool tls = url && url->scheme == "amqps";
    for (const auto* path : {"broker.ca", "broker.cert", "broker.key", "broker.verify_host"}) {
      if (!tls && draft_.given.contains(path))
        problem(path, "it has a meaning for amqps:// alone, and broker.url says amqp://");
    }
  }

  void store_tls() {
    pair("store");
    if (!sound("store.tls")) return;
    const bool verify = config_.store.tls == "verify";
    if (verify && !draft_.given.contains("store.ca")) {
      problem("store.tls",
              "verify needs store.ca, the authorities that may have signed the server's certificate");
    }
    for (const auto* path : {"store.ca", "store.cert", "store.key"}) {
      if (!verify && draft_.given.contains(path))
        problem(path, "it has a meaning with store.tls: verify alone");
    }
  }

  void schema() {
    if (!has("store.url")) return;
    const auto url = parse_url(config_.store.url);
    if (url && url->path.empty())
      problem("store.url", "the schema is missing: mysql://user:password@host:port/schema");
    if (url && url->user.empty())
      problem("store.url", "the user is missing: mysql://user:password@host:port/schema");
  }

  void heartbeat_and_lease() {
    const auto text = [](Ms ms) { return levels::format_duration(ms); };
    if (!sound("lease")) return;
    if (!draft_.given.contains("broker.heartbeat")) {
      const auto whole = std::chrono::floor<std::chrono::seconds>(config_.lease);
      config_.broker.heartbeat = std::min<Ms>(config_.broker.heartbeat, whole);
    } else if (has("broker.heartbeat") && config_.broker.heartbeat > config_.lease) {
      // The broker takes a dead instance's connection for alive until three heartbeats are missing: what that
      // instance was publishing waits for it.
      problem("broker.heartbeat", text(config_.broker.heartbeat) + " is longer than the lease (" +
                                      text(config_.lease) + "): at most as long");
    }
    if (sound("window") && config_.window < config_.lease) {
      const char* path = has("window") ? "window" : "lease";
      problem(path, "the window (" + text(config_.window) + ") is shorter than the lease (" +
                        text(config_.lease) + "): at least as long");
    }
  }

  void node() {
    if (draft_.given.contains("node")) return;
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0) {
      Node name;
      name.kind = Node::Kind::text;
      name.text = name.written = host.data();
      Problems ignored{""};
      if (Value{draft_, ignored, name, "node"}.name(config_.node, 64)) return;
    }
    problems_.add({}, "node is missing, and the host's name cannot stand for it: write node: NAME");
  }

  void password(const std::string& section, const std::string& file, std::string& url_text) {
    const std::string path = section + ".password_file", url_path = section + ".url";
    if (!has(path) || !has(url_path) || !draft_.reads_files_of(path)) return;
    auto url = parse_url(url_text);
    if (!url) return;
    if (url->user.empty()) {
      problem(path, "the password has no user: write " + url->scheme + "://USER@... in " + url_path);
      return;
    }
    if (auto line = first_line(path, file, "password")) {
      url->password = *std::move(line);
      url_text = format_url(*url);
    }
  }

  // A secret in a file of its own. None: told.
  std::optional<std::string> first_line(std::string_view path, const std::string& file,
                                        const std::string& what) {
    std::ifstream in(file, std::ios::binary);
    std::string line(kMostOfPassword + 1, '\0');  // bounded: /dev/zero is a file, too
    in.read(line.data(), static_cast<std::streamsize>(line.size()));
    if (in.bad() || (in.fail() && !in.eof())) {
      problem(path, std::string("it cannot be read: ") + std::strerror(errno));  // NOLINT: one thread loads
      return std::nullopt;
    }
    line.resize(std::min(line.find('\n'), static_cast<std::size_t>(in.gcount())));
    if (line.size() > kMostOfPassword) {
      problem(path, "the file's first line is over " + std::to_string(kMostOfPassword) + " bytes: it is no " +
                        what);
      return std::nullopt;
    }
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) {
      problem(path, "the file's first line is empty: it is the " + what);
    } else if (line.find('\0') != std::string::npos) {
      problem(path, "the file's first line holds a NUL: it is no " + what);
    } else {
      return line;
    }
    return std::nullopt;
  }

  void http() {
    pair("http");
    token("http.token_file", config_.http.token_file, config_.http.token);
    token("http.read_token_file", config_.http.read_token_file, config_.http.read_token);
    if (draft_.given.contains("http.read_token_file") && !draft_.given.contains("http.token_file"))
      problem("http.read_token_file", "it needs http.token_file beside it, else everybody may write");
    if (!config_.http.token.empty() && config_.http.token == config_.http.read_token)
      problem("http.read_token_file", "it holds the same token as http.token_file");
    if (!has("http.listen")) return;
    const auto at = parse_url("tcp://" + config_.http.listen);
    config_.http.host = at->host;
    config_.http.port = at->port;
    const std::string& host = at->host;
    in_addr four{};
    const bool loopback = host == "localhost" || host == "::1" ||
                          (inet_pton(AF_INET, host.c_str(), &four) == 1 && ntohl(four.s_addr) >> 24U == 127);
    if (!loopback && !draft_.given.contains("http.token_file")) {
      problem("http.listen",
              "others than this machine reach it there: that needs http.token_file, or listen on 127.0.0.1");
    }
  }

  void token(const std::string& path, const std::string& file, std::string& out) {
    if (!has(path) || !draft_.reads_files_of(path)) return;
    const auto line = first_line(path, file, "token");
    if (!line) return;
    // It travels in a header.
    if (std::ranges::any_of(*line, [](char c) { return c <= ' ' || c >= 0x7f; }))
      return problem(path, "the token holds other characters than the visible ones of ASCII");
    out = *line;
  }

  Draft& draft_;
  Config& config_;
  Problems& problems_;
};

}  // namespace

void complete(Draft& draft, Problems& problems) {
  Completion(draft, problems).run();
  draft.config.rules = build_rules(draft, problems);
}

}  // namespace rung::confile
