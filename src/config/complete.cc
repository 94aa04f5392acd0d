// What concerns several keys at once, and the files that hold secrets.
#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "src/config/draft.h"
#include "src/core/url.h"

namespace rung::confile {
namespace {

constexpr std::size_t kMostOfPassword = 4096;

class Completion {
 public:
  Completion(Draft& draft, Problems& problems) : draft_(draft), config_(draft.config), problems_(problems) {}

  void run() {
    required("broker", "amqp://user:password@host:port/%2f");
    same_service("broker", "virtual host");
    for (const std::string& store : stores()) {
      required(store, "mysql://user:password@host:port/schema");
      same_service(store, "schema");
      schema(store);
    }
    broker_tls();
    store_tls();
    heartbeat_and_lease();
    node();
    if (draft_.warns()) file_rights();
    password("broker", "broker.password_file", draft_.broker_password_file);
    store_passwords();
    take_store(draft_);
    complete_delays(draft_, problems_);
    http();
  }

 private:
  // The sections that name a database: of the groups each has one.
  std::vector<std::string> stores() const {
    if (draft_.groups.empty()) return {"store"};
    std::vector<std::string> all;
    for (const GroupDraft& group : draft_.groups) all.push_back(group.path("store"));
    return all;
  }

  void store_passwords() {
    if (draft_.groups.empty()) return password("store", "store.password_file", config_.store.password_file);
    for (const GroupDraft& group : draft_.groups) {
      const std::string path = group.path("store.password_file");
      if (!draft_.reads_files_of(path)) continue;
      if (draft_.given.contains(path)) {
        password(group.path("store"), path, group.password_file);
      } else {
        password(group.path("store"), "store.password_file", config_.store.password_file);
      }
    }
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

  void required(const std::string& section, std::string_view example) {
    if (draft_.given.contains(section + ".url") || draft_.given.contains(section + ".urls")) return;
    problems_.add(
        mark(section).line > 0 ? mark(section) : mark(section.substr(0, section.rfind('.'))),
        section + ".url is missing: write " + section + ": { url: \"" + std::string(example) + "\" }");
  }

  // The key that holds the section's addresses: "broker.url" or "broker.urls".
  std::string url_key(const std::string& section) const {
    return section + (draft_.given.contains(section + ".urls") ? ".urls" : ".url");
  }
  std::vector<std::string*> url_texts(const std::string& section) {
    std::string* first = &config_.store.url;
    std::vector<std::string>* others = &config_.store.other_urls;
    if (section == "broker") {
      first = &config_.broker.url;
      others = &config_.broker.other_urls;
    }
    for (GroupDraft& group : draft_.groups) {
      if (section != group.path("store")) continue;
      first = &group.url;
      others = &group.other_urls;
    }
    std::vector<std::string*> all = {first};
    for (std::string& one : *others) all.push_back(&one);
    return all;
  }
  // Parsed; none where they were wrong.
  std::vector<Url> urls(const std::string& section) {
    std::vector<Url> all;
    if (!has(url_key(section))) return all;
    for (const std::string* text : url_texts(section)) {
      if (auto url = parse_url(*text)) all.push_back(*std::move(url));
    }
    return all;
  }

  // Several addresses are of one service: whatever is asked of one is asked of all.
  void same_service(const std::string& section, const std::string& path_is) {
    const std::string key = section + ".urls";
    if (!draft_.given.contains(key)) return;
    if (draft_.given.contains(section + ".url")) {
      draft_.given[section + ".url"].ok = false;
      return problem(key, section + ".url is given too: keep one of them; all addresses in " + key +
                              ", or a single one in " + section + ".url");
    }
    const std::vector<Url> all = urls(section);
    const int usual = all.empty()                ? 0
                      : all[0].scheme == "amqps" ? 5671
                      : all[0].scheme == "amqp"  ? 5672
                                                 : 3306;
    for (std::size_t i = 1; i < all.size(); ++i) {
      const auto differs = [&](const std::string& what) {
        problem(key, "[" + std::to_string(i + 1) + "] has another " + what +
                         " than [1]: they are addresses of one service, write the same in all");
      };
      const bool broker = section == "broker";
      if (all[i].scheme != all[0].scheme) differs("scheme (" + all[i].scheme + "://)");
      if (broker ? all[i].vhost() != all[0].vhost() : all[i].path != all[0].path) differs(path_is);
      for (std::size_t j = 0; j < i; ++j) {
        if (all[i].host_port(usual) == all[j].host_port(usual))
          problem(key, "[" + std::to_string(i + 1) + "] is the same host and port as [" +
                           std::to_string(j + 1) + "]: leave it out");
      }
    }
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
    const std::vector<Url> all = urls("broker");
    if (all.empty()) return;
    const bool tls = all.front().scheme == "amqps";
    for (const auto* path : {"broker.ca", "broker.cert", "broker.key", "broker.verify_host"}) {
      if (!tls && draft_.given.contains(path))
        problem(path, "it has a meaning for amqps:// alone, and " + url_key("broker") + " says amqp://");
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

  void schema(const std::string& section) {
    const std::vector<Url> all = urls(section);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string place = all.size() > 1 ? "[" + std::to_string(i + 1) + "] " : "";
      if (all[i].path.empty())
        problem(url_key(section), place + "the schema is missing: mysql://user:password@host:port/schema");
      if (all[i].user.empty())
        problem(url_key(section), place + "the user is missing: mysql://user:password@host:port/schema");
    }
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

  // A secret that other users of this machine may read is none.
  void file_rights() {
    const auto management = parse_url(config_.broker.rabbitmq.management);
    std::vector<std::pair<std::string, std::vector<Url>>> holders = {{url_key("broker"), urls("broker")}};
    for (const std::string& store : stores()) holders.emplace_back(url_key(store), urls(store));
    holders.emplace_back("broker.management", management ? std::vector{*management} : std::vector<Url>{});
    for (const auto& [path, all] : holders) {
      const auto place = draft_.given.find(path);
      if (place == draft_.given.end() || !place->second.ok || place->second.substituted) continue;
      if (std::ranges::all_of(all, [](const Url& url) { return url.password.empty(); })) continue;
      warn_readable(place->second.mark, problems_.file(), path + " holds a password");
      break;  // the same file
    }
    std::vector<std::pair<std::string, std::string>> files = {
        {"broker.password_file", draft_.broker_password_file},
        {"store.password_file", config_.store.password_file},
        {"http.token_file", config_.http.token_file},
        {"http.read_token_file", config_.http.read_token_file},
        {"broker.key", config_.broker.key},
        {"store.key", config_.store.key},
        {"http.key", config_.http.key},
    };
    for (const GroupDraft& group : draft_.groups)
      files.emplace_back(group.path("store.password_file"), group.password_file);
    for (const auto& [path, file] : files) {
      if (has(path)) warn_readable(mark(path), file, path + " is a secret");
    }
  }

  void warn_readable(Mark at, const std::string& file, const std::string& why) {
    constexpr mode_t kOthers = S_IRWXO, kAll = 07777;
    struct stat about {};
    if (stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode) || (about.st_mode & kOthers) == 0) return;
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(about.st_mode & kAll));
    problems_.warn(at, why + ", and every user of this machine may read " + file + " (mode " + mode.data() +
                           "): chmod 640 " + file + ", or 600");
  }

  void password(const std::string& section, const std::string& path, const std::string& file) {
    if (!has(path) || !draft_.reads_files_of(path)) return;
    std::vector<Url> all = urls(section);
    for (const Url& url : all) {
      if (!url.user.empty()) continue;
      problem(path, "the password has no user: write " + url.scheme + "://USER@... in " + url_key(section));
      return;
    }
    if (all.empty()) return;
    const auto line = first_line(path, file, "password");
    if (!line) return;
    const auto texts = url_texts(section);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      all[i].password = *line;
      *texts[i] = format_url(all[i]);
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
    if (has("http.listen")) {
      const auto at = parse_url("tcp://" + config_.http.listen);
      config_.http.host = at->host;
      config_.http.port = at->port;
      needs_token("http.listen", at->host);
    }
    for (const GroupDraft& group : draft_.groups) {
      const std::string path = group.path("http.listen");
      if (has(path) && group.name != config_.groups.own)
        needs_token(path, parse_url("tcp://" + group.listen)->host);
    }
  }

  void needs_token(const std::string& path, const std::string& host) {
    in_addr four{};
    const bool loopback = host == "localhost" || host == "::1" ||
                          (inet_pton(AF_INET, host.c_str(), &four) == 1 && ntohl(four.s_addr) >> 24U == 127);
    if (!loopback && !draft_.given.contains("http.token_file")) {
      problem(path,
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
  resolve_groups(draft, problems);
  Completion(draft, problems).run();
  draft.config.rules = build_rules(draft, problems);
}

}  // namespace rung::confile
