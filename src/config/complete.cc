// Checks that involve several keys, and files with secrets.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <set>
#include <utility>

#include "src/config/draft.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/url.h"
#include "src/core/message/digest.h"

namespace rung::confile {
namespace {

constexpr std::size_t kMostTokens = 8;

class Completion {
 public:
  Completion(Draft& draft, Problems& problems) : draft_(draft), config_(draft.config), problems_(problems) {}

  void run() {
    if (draft_.purpose != ConfigFor::reading) required("broker", "amqp://user:password@host:port/%2f");
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
    if (draft_.reports_warnings()) file_rights();
    password("broker", "broker.password_file", config_.broker.password_file);
    store_passwords();
    use_group_store(draft_);
    complete_delays(draft_, problems_);
    http();
  }

 private:
  // The sections with a database: one per group, or `store`.
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
      if (draft_.present.contains(path)) {
        password(group.path("store"), path, group.password_file);
      } else {
        password(group.path("store"), "store.password_file", config_.store.password_file);
      }
    }
  }

  // Present and valid.
  bool has(std::string_view path) const { return draft_.has_valid(path); }
  // Absent, or present and valid: the config's value can be checked.
  bool valid(std::string_view path) const { return has(path) || !draft_.present.contains(path); }
  Mark mark(std::string_view path) const { return draft_.mark(path); }
  void problem(std::string_view path, std::string what) {
    problems_.add(mark(path), std::string(path) + ": " + std::move(what));
  }

  void required(const std::string& section, std::string_view example) {
    if (draft_.present.contains(section + ".url") || draft_.present.contains(section + ".urls")) return;
    problems_.add(
        mark(section).line > 0 ? mark(section) : mark(section.substr(0, section.rfind('.'))),
        section + ".url is missing: write " + section + ": { url: \"" + std::string(example) + "\" }");
  }

  // The key with the section's addresses: "broker.url" or "broker.urls".
  std::string url_key(const std::string& section) const {
    return section + (draft_.present.contains(section + ".urls") ? ".urls" : ".url");
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
  // Parsed; empty if they are invalid.
  std::vector<Url> urls(const std::string& section) {
    std::vector<Url> all;
    if (!has(url_key(section))) return all;
    for (const std::string* text : url_texts(section)) {
      if (auto url = parse_url(*text)) all.push_back(*std::move(url));
    }
    return all;
  }

  // All addresses in a list must belong to one service.
  void same_service(const std::string& section, const std::string& path_is) {
    const std::string key = section + ".urls";
    if (!draft_.present.contains(key)) return;
    if (draft_.present.contains(section + ".url")) {
      draft_.present[section + ".url"].ok = false;
      return problem(key, section + ".url is also set: keep only one of them; put all addresses in " + key +
                              ", or a single address in " + section + ".url");
    }
    const std::vector<Url> all = urls(section);
    const int usual = all.empty()                ? 0
                      : all[0].scheme == "amqps" ? 5671
                      : all[0].scheme == "amqp"  ? 5672
                                                 : 3306;
    for (std::size_t i = 1; i < all.size(); ++i) {
      const auto differs = [&](const std::string& what) {
        problem(key, "[" + std::to_string(i + 1) + "] has a different " + what +
                         " than [1]: all addresses must belong to one service");
      };
      const bool broker = section == "broker";
      if (all[i].scheme != all[0].scheme) differs("scheme (" + all[i].scheme + "://)");
      if (broker ? all[i].vhost() != all[0].vhost() : all[i].path != all[0].path) differs(path_is);
      for (std::size_t j = 0; j < i; ++j) {
        if (all[i].host_port(usual) == all[j].host_port(usual))
          problem(key, "[" + std::to_string(i + 1) + "] has the same host and port as [" +
                           std::to_string(j + 1) + "]: remove it");
      }
    }
  }

  // A client certificate needs two files.
  void check_pair(const std::string& section) {
    const std::string cert = section + ".cert", key = section + ".key";
    if (draft_.present.contains(cert) && !draft_.present.contains(key)) problem(cert, "requires " + key);
    if (draft_.present.contains(key) && !draft_.present.contains(cert)) problem(key, "requires " + cert);
  }

  void broker_tls() {
    check_pair("broker");
    const std::vector<Url> all = urls("broker");
    if (all.empty()) return;
    const bool tls = all.front().scheme == "amqps";
    for (const auto* path : {"broker.ca", "broker.cert", "broker.key", "broker.verify_host"}) {
      if (!tls && draft_.present.contains(path))
        problem(path, "only valid with amqps://, but " + url_key("broker") + " uses amqp://");
    }
  }

  void store_tls() {
    check_pair("store");
    if (!valid("store.tls")) return;
    const bool verify = config_.store.tls == "verify";
    if (verify && !draft_.present.contains("store.ca")) {
      problem("store.tls", "verify requires store.ca, the CA certificates for the server's certificate");
    }
    for (const auto* path : {"store.ca", "store.cert", "store.key"}) {
      if (!verify && draft_.present.contains(path)) problem(path, "only valid with store.tls: verify");
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
    if (!valid("lease")) return;
    if (!draft_.present.contains("broker.heartbeat")) {
      const auto whole = std::chrono::floor<std::chrono::seconds>(config_.lease);
      config_.broker.heartbeat = std::min<Ms>(config_.broker.heartbeat, whole);
    } else if (has("broker.heartbeat") && config_.broker.heartbeat > config_.lease) {
      // The broker keeps a dead instance's connection until three heartbeats are missed, and publishes of
      // that instance are not repeated before.
      problem("broker.heartbeat", text(config_.broker.heartbeat) + " is longer than the lease (" +
                                      text(config_.lease) + "): it must not be longer");
    }
    if (valid("window") && config_.window < config_.lease) {
      const char* path = has("window") ? "window" : "lease";
      problem(path, "the window (" + text(config_.window) + ") is shorter than the lease (" +
                        text(config_.lease) + "): it must not be shorter");
    }
  }

  void node() {
    if (draft_.present.contains("node")) return;
    if (const std::string host = host_name(); !host.empty()) {
      Node name;
      name.kind = Node::Kind::text;
      name.text = name.written = host;
      Problems ignored{""};
      if (Value{draft_, ignored, name, "node"}.name(config_.node, 64)) return;
    }
    problems_.add({}, "node is missing, and the host name is not a valid node name: write node: NAME");
  }

  // Warns about secrets that other users of this machine can read.
  void file_rights() {
    const auto management = parse_url(config_.broker.rabbitmq.management);
    std::vector<std::pair<std::string, std::vector<Url>>> secrets = {{url_key("broker"), urls("broker")}};
    for (const std::string& store : stores()) secrets.emplace_back(url_key(store), urls(store));
    secrets.emplace_back("broker.management", management ? std::vector{*management} : std::vector<Url>{});
    for (const auto& [path, all] : secrets) {
      const auto place = draft_.present.find(path);
      if (place == draft_.present.end() || !place->second.ok || place->second.substituted) continue;
      if (std::ranges::all_of(all, [](const Url& url) { return url.password.empty(); })) continue;
      warn_readable(place->second.mark, problems_.file(), path + " contains a password");
      break;  // the same file
    }
    std::vector<std::pair<std::string, std::string>> files = {
        {"broker.password_file", config_.broker.password_file},
        {"store.password_file", config_.store.password_file},
        {"http.token_file", config_.http.token_file},
        {"http.read_token_file", config_.http.read_token_file},
        {"http.tokens_file", config_.http.tokens_file},
        {"broker.key", config_.broker.key},
        {"store.key", config_.store.key},
        {"http.key", config_.http.key},
    };
    for (const GroupDraft& group : draft_.groups)
      files.emplace_back(group.path("store.password_file"), group.password_file);
    for (const auto& [path, file] : files) {
      if (has(path)) warn_readable(mark(path), file, path + " is secret");
    }
  }

  void warn_readable(Mark at, const std::string& file, const std::string& why) {
    // Several keys may name one file.
    if (warned_of_.insert(file).second) warn_if_readable(problems_, at, file, why);
  }

  void password(const std::string& section, const std::string& path, const std::string& file) {
    if (!has(path) || !draft_.reads_files_of(path)) return;
    std::vector<Url> all = urls(section);
    for (const Url& url : all) {
      if (!url.user.empty()) continue;
      problem(path, "the URL has no user for this password: write " + url.scheme + "://USER@... in " +
                        url_key(section));
      return;
    }
    if (all.empty()) return;
    const auto line = read_password_file(file);
    if (!line) return problem(path, line.error().message);
    const auto texts = url_texts(section);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      all[i].password = *line;
      *texts[i] = format_url(all[i]);
    }
  }

  void http() {
    check_pair("http");
    tokens("http.token_file", config_.http.token_file, config_.http.tokens);
    tokens("http.read_token_file", config_.http.read_token_file, config_.http.read_tokens);
    people();
    oidc();
    if (draft_.present.contains("http.read_token_file") && !names_tokens())
      problem("http.read_token_file",
              "requires http.token_file, http.tokens_file or http.oidc: otherwise everyone may write");
    const auto& full = config_.http.tokens;
    if (std::ranges::any_of(config_.http.read_tokens,
                            [&](const std::string& one) { return std::ranges::count(full, one) > 0; }))
      problem("http.read_token_file", "contains the same token as http.token_file: use different tokens");
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

  // All or nothing: a token is only checked as a whole.
  void oidc() {
    if (!has("http.oidc")) return;
    for (const auto& [key, example] :
         {std::pair{"issuer", "https://id.example.com/realms/main"}, std::pair{"client_id", "rung"},
          std::pair{"roles_claim", "groups"}, std::pair{"map", "{ rung-admins: admin }"}}) {
      const std::string path = std::string("http.oidc.") + key;
      if (!draft_.present.contains(path))
        problem("http.oidc", std::string(key) + " is missing: write " + key + ": " + example);
    }
    const std::string secret_file = "http.oidc.client_secret_file";
    if (has(secret_file) && draft_.reads_files_of(secret_file)) {
      auto lines = read_secret_lines(config_.http.oidc.client_secret_file, "secret", 1);
      if (!lines) return problem(secret_file, lines.error().message);
      config_.http.oidc.client_secret = lines->front();
    }
    if (draft_.present.contains("http.oidc.ca") && config_.http.oidc.issuer.starts_with("http://"))
      problem("http.oidc.ca", "only valid with https://, but http.oidc.issuer uses http://");
  }

  void needs_token(const std::string& path, const std::string& host) {
    if (!is_loopback(host) && !names_tokens()) {
      problem(path,
              "not a loopback address: set http.token_file, http.tokens_file or http.oidc, or listen on "
              "127.0.0.1");
    }
  }

  // Whether any token may write.
  bool names_tokens() const {
    return draft_.present.contains("http.token_file") || draft_.present.contains("http.tokens_file") ||
           draft_.present.contains("http.oidc");
  }

  void people() {
    const std::string path = "http.tokens_file";
    if (!has(path) || !draft_.reads_files_of(path)) return;
    auto all = read_tokens_file(config_.http.tokens_file, mark(path), problems_);
    for (const auto* other : {&config_.http.tokens, &config_.http.read_tokens}) {
      for (const std::string& token : *other) {
        const auto same = std::ranges::find(all, sha256(token), &PersonToken::digest);
        if (same != all.end())
          problem(path, same->person.name + " has the same token as http.token_file or " +
                            "http.read_token_file: use different tokens");
      }
    }
    config_.http.people = std::move(all);
  }

  // One token a line: while they are changed, the old one and the new one are valid.
  void tokens(const std::string& path, const std::string& file, std::vector<std::string>& out) {
    if (!has(path) || !draft_.reads_files_of(path)) return;
    auto lines = read_secret_lines(file, "token", kMostTokens);
    if (!lines) return problem(path, lines.error().message);
    // They are sent in a header.
    for (const std::string& line : *lines) {
      if (std::ranges::any_of(line, [](char c) { return c <= ' ' || c >= 0x7f; }))
        return problem(path, "a token must contain only visible ASCII characters");
    }
    out = *std::move(lines);
  }

  Draft& draft_;
  Config& config_;
  Problems& problems_;
  std::set<std::string> warned_of_;  // files, by warn_readable()
};

}  // namespace

std::string host_name() {
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

void complete(Draft& draft, Problems& problems) {
  if (is_api_config(draft)) return complete_api(draft, problems);
  resolve_groups(draft, problems);
  Completion(draft, problems).run();
  draft.config.dialects = read_dialects(draft, problems);
  for (const auto& [name, dialect] : draft.config.dialects) {
    if (!draft.dialect_files.empty()) draft.config.not_reloadable["dialects " + name] = dialect->text;
  }
  draft.config.store.cause_rules = build_cause_rules(draft, problems);
  draft.config.rules = build_rules(draft, problems);
  if (draft.config.rules != nullptr)
    draft.config.broker.error_queues = draft.config.rules->error_queues_ptr();
  for (const QueueGroups::Group& group : draft.config.groups.all)
    draft.config.broker.group_prefixes.push_back(group.prefix);
}

}  // namespace rung::confile
