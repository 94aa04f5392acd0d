// What concerns several keys at once, and the files that hold secrets.
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
  }

 private:
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
    if (!has(path) || !has(url_path)) return;
    auto url = parse_url(url_text);
    if (!url) return;
    if (url->user.empty()) {
      problem(path, "the password has no user: write " + url->scheme + "://USER@... in " + url_path);
      return;
    }
    std::ifstream in(file, std::ios::binary);
    std::string line(kMostOfPassword + 1, '\0');  // bounded: /dev/zero is a file, too
    in.read(line.data(), static_cast<std::streamsize>(line.size()));
    if (in.bad() || (in.fail() && !in.eof())) {
      problem(path, std::string("it cannot be read: ") + std::strerror(errno));  // NOLINT: one thread loads
      return;
    }
    line.resize(std::min(line.find('\n'), static_cast<std::size_t>(in.gcount())));
    if (line.size() > kMostOfPassword) {
      problem(path, "the file's first line is over " + std::to_string(kMostOfPassword) +
                        " bytes: it is no password");
      return;
    }
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) {
      problem(path, "the file's first line is empty: it is the password");
    } else if (line.find('\0') != std::string::npos) {
      problem(path, "the file's first line holds a NUL: it is no password");
    } else {
      url->password = line;
      url_text = format_url(*url);
    }
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
