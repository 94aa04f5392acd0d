// Checks that involve several keys: of broker, databases and groups, files with their passwords; the section
// http with its files, http.tokens_file among them (a YAML list of tokens; no message quotes one), and the
// section api.
#include <unistd.h>

#include <algorithm>
#include <array>

#include "src/config/load.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

namespace rung {

std::string which_group(const QueueGroups& groups) {
  return "the config has groups: choose one with --group NAME or RUNG_GROUP: " + groups.names();
}

namespace confile {
namespace {

// A section with the addresses of one broker or database: `url` or `urls`.
struct Service {
  const Node& around;   // what has the section, or should have it
  std::string section;  // "store"
  // The key with the addresses.
  std::string key = section + (around.has(section + ".urls") ? ".urls" : ".url");
  Urls urls = around.get<Urls>(key).value_or(Urls());

  std::string path() const { return around.path_of(key); }
};

void check_addresses(const Service& one, const std::string& example, bool needed, Load& load) {
  const std::string section = one.around.path_of(one.section), url = section + ".url";
  const bool has_one = one.around.has(one.section + ".url");
  if (!one.around.has(one.key) && needed)
    load.problems.add(one.around.mark_at(one.section),
                      url + " is missing: write " + section + ": { url: \"" + example + "\" }");
  if (has_one && one.key.ends_with(".urls"))
    load.wrong(one.around, one.key,
               url + " is also set: keep only one of them; put all addresses in " + one.path() +
                   ", or a single address in " + url);
}

// Its first line takes the place of the passwords in the URLs. nullptr: there is none.
void check_password(const Service& one, const Node* file, Load& load) {
  if (file == nullptr || file->invalid || one.urls.empty() || !load.reads_files_of(file->path)) return;
  const auto without = std::ranges::find_if(one.urls, [](const Url& url) { return url.user.empty(); });
  const auto line = read_password_file(*file->get<std::string>());
  if (without != one.urls.end()) {
    load.wrong(
        *file, "",
        "the URL has no user for this password: write " + without->scheme + "://USER@... in " + one.path());
  } else if (!line) {
    load.wrong(*file, "", line.error().message);
  }
}

bool same_database(const Service& one, const Service& other) {
  return std::ranges::any_of(one.urls, [&](const Url& url) {
    return std::ranges::any_of(
        other.urls, [&](const Url& its) { return url.path == its.path && place_of(url) == place_of(its); });
  });
}

using Stores = std::vector<Service>;  // one per group, or `store`

// Absent, or present and valid: the config's value can be checked.
bool usable(std::string_view path, const Load& load) { return !load.root.has(path) || load.root.valid(path); }

void compare_groups(std::size_t first, std::size_t second, const Stores& stores, Load& load) {
  const QueueGroups::Group &one = load.config.groups.all[first], &other = load.config.groups.all[second];
  const Node& node = load.root.entries_at("groups")[second].value;
  if (one.prefix == other.prefix)
    load.wrong(node, "prefix", "same prefix as group " + one.name + ": each group needs its own prefix");
  if (same_database(stores[first], stores[second]))
    load.wrong(node, stores[second].key,
               "same host, port and schema as group " + one.name + ": each group needs its own database");
  for (const Node& queue : node.items_at("queues")) {
    if (std::ranges::find(one.queues, queue.text) != one.queues.end())
      load.wrong(queue, "", one.name + " has the same entry: a queue belongs to one group");
  }
}

void choose_group(Load& load) {
  QueueGroups& groups = load.config.groups;
  std::string& prefix = load.config.broker.prefix;
  const GroupChoice& choice = load.choice;
  prefix.clear();
  if (const auto* group = groups.find(choice.name)) {
    groups.own = group->name;
    prefix = group->prefix;
  } else if (!choice.name.empty()) {
    load.problems.add({}, choice.source + ": unknown group " + in_quotes(choice.name) +
                              ": available groups: " + groups.names());
  } else if (!choice.queue.empty()) {
    load.problems.add({}, "no group has queue " + in_quotes(choice.queue) +
                              ": add it to groups.NAME.queues, or use --group NAME: " + groups.names());
  } else if (load.purpose != ConfigFor::check) {
    load.problems.add({}, which_group(groups));
  }
}

// Conflicts between groups, and the choice of one.
void resolve_groups(const Stores& stores, Load& load) {
  const GroupChoice& choice = load.choice;
  load.config.groups = groups_of(load);
  const std::size_t count = load.config.groups.all.size();
  if (count == 0) {
    if (!choice.name.empty() && !load.root.has("groups"))
      load.problems.add({}, choice.source + " is " + in_quotes(choice.name) +
                                ", but the config has no groups: omit it, or add groups: "
                                "(docs/performance.md)");
    return;
  }
  for (const auto& [key, place] : {std::pair{"store.url", "store.url"}, std::pair{"store.urls", "store.urls"},
                                   std::pair{"broker.prefix", "prefix"}}) {
    if (load.root.has(key))
      load.problem(key, "each group needs its own: write it as groups.NAME." + std::string(place));
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) compare_groups(j, i, stores, load);
  }
  choose_group(load);
}

// A client certificate needs two files.
void check_pair(Load& load, const std::string& section) {
  const std::string cert = section + ".cert", key = section + ".key";
  if (load.root.has(cert) && !load.root.has(key)) load.problem(cert, "requires " + key);
  if (load.root.has(key) && !load.root.has(cert)) load.problem(key, "requires " + cert);
}

void check_tls(const Service& broker, Load& load) {
  const Node& root = load.root;
  check_pair(load, "broker");
  const bool plain = !broker.urls.empty() && broker.urls.front().scheme != "amqps";
  for (const auto* path : {"broker.ca", "broker.cert", "broker.key", "broker.verify_host"}) {
    if (plain && root.has(path))
      load.problem(path, "only valid with amqps://, but " + broker.path() + " uses amqp://");
  }
  check_pair(load, "store");
  const bool verify = load.config.store.tls == "verify", known = usable("store.tls", load);
  if (known && verify && !root.has("store.ca"))
    load.problem("store.tls", "verify requires store.ca, the CA certificates for the server's certificate");
  for (const auto* path : {"store.ca", "store.cert", "store.key"}) {
    if (known && !verify && root.has(path)) load.problem(path, "only valid with store.tls: verify");
  }
}

void check_times(Load& load) {
  const auto text = [](Ms ms) { return levels::format_duration(ms); };
  if (!usable("lease", load)) return;
  const Ms lease = load.config.lease, window = load.config.window;
  Ms& heartbeat = load.config.broker.heartbeat;
  if (!load.root.has("broker.heartbeat")) {
    heartbeat = std::min<Ms>(heartbeat, std::chrono::floor<std::chrono::seconds>(lease));
  } else if (usable("broker.heartbeat", load) && heartbeat > lease) {
    // The broker keeps a dead instance's connection until three heartbeats are missed, and publishes of
    // that instance are not repeated before.
    load.problem("broker.heartbeat",
                 text(heartbeat) + " is longer than the lease (" + text(lease) + "): it must not be longer");
  }
  if (usable("window", load) && window < lease)
    load.problem(load.root.has("window") ? "window" : "lease", "the window (" + text(window) +
                                                                   ") is shorter than the lease (" +
                                                                   text(lease) + "): it must not be shorter");
}

void complete_node(Load& load) {
  std::string& node = load.config.node;
  if (load.root.has("node")) return;
  node = host_name();
  if (node.empty() || node.size() > kLongestName || !is_plain(node))
    load.problems.add({}, "node is missing, and the host name is not a valid node name: write node: NAME");
}

void check_passwords(const Service& broker, const Stores& stores, Load& load) {
  Config& config = load.config;
  check_password(broker, load.root.find("broker.password_file"), load);
  for (const Service& store : stores) {
    // Its own, or that of all groups: only for the group that is needed.
    const std::string section = store.around.path_of("store");
    const Node* const own = store.around.find("store.password_file");
    if (load.reads_files_of(section + ".password_file"))
      check_password(store, own != nullptr ? own : load.root.find("store.password_file"), load);
    if (!config.groups.empty() && section != "groups." + config.groups.own + ".store") continue;
    config.store.urls = store.urls;
    if (own != nullptr) config.store.password_file = own->text_at("");
  }
}

void complete_services(Load& load) {
  const Service broker{load.root, "broker"};
  Stores stores;
  for (const auto& [key, group] : load.root.entries_at("groups")) stores.push_back({group, "store"});
  if (stores.empty()) stores.push_back({load.root, "store"});
  resolve_groups(stores, load);
  check_addresses(broker, "amqp://user:password@host:port/%2f", load.purpose != ConfigFor::reading, load);
  for (const Service& store : stores)
    check_addresses(store, "mysql://user:password@host:port/schema", true, load);
  check_tls(broker, load);
  check_passwords(broker, stores, load);
}

constexpr std::size_t kMostTokens = 8, kMostPeople = 1000;
constexpr std::size_t kShortestToken = 16, kLongestToken = 255;
constexpr std::string_view kTokenForm = "{ name: alice, role: operator, token: \"...\" }";

// It is sent in a header.
bool is_visible(const std::string& text) {
  return std::ranges::none_of(text, [](char c) { return c <= ' ' || c >= 0x7f; });
}

// Whether a [ stands outside of a class: for queues' names it would stand for itself, here it is more likely
// an error.
bool has_open_class(std::string_view pattern) {
  for (std::size_t at = pattern.find('['); at != std::string_view::npos; at = pattern.find('[', at)) {
    const std::size_t first = at + (pattern.substr(at + 1).starts_with('!') ? 2 : 1);
    // A ] that comes first is a member of the class.
    at = first < pattern.size() ? pattern.find(']', first + 1) : std::string_view::npos;
    if (at == std::string_view::npos) return true;
  }
  return false;
}

Reader<QueuePattern> queue_pattern() {
  return text(255)
      .where(is_utf8, "expected a name or a pattern of 1 to 255 bytes of UTF-8")
      .where([](const std::string& text) { return !has_open_class(text); },
             "a [ without its ]: write [abc], or [[] for the character")
      .to([](std::string text) { return QueuePattern(std::move(text)); });
}

Reader<std::string> person() {
  return text(kLongestPersonName)
      .where([](const std::string& text) { return std::ranges::all_of(text, is_person_name_char); },
             "expected 1 to " + std::to_string(kLongestPersonName) + " letters, digits and . _ @ + -");
}

std::optional<Role> read_role(Value& v) {
  v.secret = v.node.text.size() >= kShortestToken;  // it could be a token in the wrong place
  return role()(v);
}

Reader<Sha256> token() {
  const std::string advice = ": openssl rand -hex 32 makes one";
  const std::string sizes = std::to_string(kShortestToken) + " to " + std::to_string(kLongestToken);
  return text(kLongestToken)
      .where([](const std::string& text) { return text.size() >= kShortestToken; },
             "expected " + sizes + " characters" + advice)
      .where(is_visible, "only visible ASCII characters are allowed" + advice)
      .to([](const std::string& text) { return sha256(text); });
}

std::optional<Sha256> read_hash(Value& v) {
  Sha256 out{};
  if (!v.is(Node::Kind::text, "a string")) return std::nullopt;
  const auto bytes = from_hex_digits(v.node.text);
  if (!bytes || bytes->size() != out.size())
    return v.wrong("expected 64 hexadecimal digits: printf %s \"$TOKEN\" | sha256sum");
  std::ranges::transform(*bytes, out.begin(), [](char c) { return static_cast<std::uint8_t>(c); });
  return out;
}

const Table& tokens_table() {
  using enum When;
  static const Table table{{{"name", &Person::name, person(), "", start},
                            {"role", &Person::role, own("role", read_role), "", start},
                            {"queues", &Person::queues, queue_scope(), "", start},
                            {"token", &PersonToken::digest, token(), "", secret},
                            {"token_sha256", &PersonToken::digest, own("text", read_hash), "", secret}},
                           {},
                           kShortestToken - 1};
  return table;
}

// `all`: the entries before it, `lines`: where each is, by token.
std::optional<PersonToken> read_person(Value& v, std::vector<PersonToken>& all,
                                       std::map<Sha256, int>& lines) {
  v.node.path.clear();
  if (!v.is(Node::Kind::map, "a token: " + std::string(kTokenForm))) return std::nullopt;
  const auto before = v.load.problems.count();
  const Node& one = v.node;
  const bool read = v.read_by(tokens_table());
  if (!one.has("name")) v.wrong("name is missing: the audit records it with every change");
  if (!one.has("role")) v.wrong("role is missing: write " + role().type);
  if (one.has("token") == one.has("token_sha256"))
    v.wrong(one.has("token") ? "write token or token_sha256, not both"
                             : "token is missing: write token, or token_sha256 with its hash");
  if (!read || v.load.problems.count() != before) return std::nullopt;
  PersonToken out;
  fill(one, out);
  fill(one, out.person);
  const auto [same, is_new] = lines.emplace(out.digest, one.mark.line);
  if (!is_new)
    v.wrong("the same token as in line " + std::to_string(same->second) + ": use different tokens");
  const auto first = std::ranges::find_if(
      all, [&](const PersonToken& other) { return other.person.name == out.person.name; });
  const auto texts = [](const PersonToken& token) {
    return token.person.queues == nullptr ? Texts() : token.person.queues->texts();
  };
  if (first != all.end() && (first->person.role != out.person.role || texts(*first) != texts(out)))
    v.wrong(out.person.name + " has another role or other queues in line " +
            std::to_string(lines.at(first->digest)) + ": tokens of one name are for one person");
  all.push_back(out);
  return out;
}

std::vector<PersonToken> read_tokens_file(const std::string& file, Load& load) {
  std::vector<PersonToken> all;
  const auto text = load.text_of(file, *load.root.find("http.tokens_file"));
  if (!text) return all;
  Problems own(file);
  if (auto root = parse_document(*text, own)) {
    Load its{own};
    Value list{its, *root};
    std::map<Sha256, int> lines;
    const std::string wanted = "a list of tokens: - " + std::string(kTokenForm);
    if (list.is(Node::Kind::list, wanted, kMostPeople)) {
      if (root->items.empty()) list.wrong("expected " + wanted);
      list.each([&](Value& one) { return read_person(one, all, lines); });
    }
  }
  load.problems.add_all(own);
  return all;
}

// The file that the key names, if it is read.
std::optional<std::string> file_at(std::string_view path, const Load& load) {
  return load.reads_files_of(path) ? load.root.get<std::string>(path) : std::nullopt;
}

// The lines of that file; none after an error.
Texts secrets_at(const std::string& path, const std::string& what, std::size_t most, Load& load) {
  const auto file = file_at(path, load);
  if (!file) return {};
  auto lines = read_secret_lines(*file, what, most);
  if (lines) return *std::move(lines);
  load.problem(path, lines.error().message);
  return {};
}

// One token a line: while they are changed, the old one and the new one are valid.
Texts read_tokens(const std::string& path, Load& load) {
  Texts all = secrets_at(path, "token", kMostTokens, load);
  if (std::ranges::all_of(all, is_visible)) return all;
  load.problem(path, "a token must contain only visible ASCII characters");
  return {};
}

// All or nothing: a token is only checked as a whole.
void complete_oidc(Load& load) {
  OidcOptions& oidc = load.config.http.oidc;
  if (!load.root.valid("http.oidc")) return;
  for (const auto& [key, example] :
       {std::pair{"issuer", "https://id.example.com/realms/main"}, std::pair{"client_id", "rung"},
        std::pair{"roles_claim", "groups"}, std::pair{"map", "{ rung-admins: admin }"}}) {
    if (!load.root.has("http.oidc." + std::string(key)))
      load.problem("http.oidc", std::string(key) + " is missing: write " + key + ": " + example);
  }
  for (std::string& secret : secrets_at("http.oidc.client_secret_file", "secret", 1, load))
    oidc.client_secret = std::move(secret);
  if (load.root.has("http.oidc.ca") && oidc.issuer.starts_with("http://"))
    load.problem("http.oidc.ca", "only valid with https://, but http.oidc.issuer uses http://");
}

void complete_listen(bool names_tokens, Load& load) {
  const auto check = [&](const Node& around) {
    const auto at = around.get<Url>("http.listen");
    if (at && !names_tokens && !is_loopback(at->host))
      load.wrong(around, "http.listen",
                 "not a loopback address: set http.token_file, http.tokens_file or http.oidc, or listen on "
                 "127.0.0.1");
  };
  check(load.root);
  for (const auto& [key, group] : load.root.entries_at("groups")) {
    check(group);
    const auto own = key.text == load.config.groups.own ? group.get<Url>("http.listen") : std::nullopt;
    if (own) load.config.http.listen = own;
  }
}

// Checks the section http, and reads its files with tokens.
void complete_http(Load& load) {
  HttpOptions& http = load.config.http;
  const Node& root = load.root;
  check_pair(load, "http");
  http.tokens = read_tokens("http.token_file", load);
  http.read_tokens = read_tokens("http.read_token_file", load);
  if (const auto file = file_at("http.tokens_file", load)) http.people = read_tokens_file(*file, load);
  for (const Texts* tokens : {&http.tokens, &http.read_tokens}) {
    for (const std::string& token : *tokens) {
      const auto same = std::ranges::find(http.people, sha256(token), &PersonToken::digest);
      if (same != http.people.end())
        load.problem("http.tokens_file",
                     same->person.name +
                         " has the same token as http.token_file or http.read_token_file: "
                         "use different tokens");
    }
  }
  complete_oidc(load);
  // Whether any token may write.
  const bool names_tokens =
      root.has("http.token_file") || root.has("http.tokens_file") || root.has("http.oidc");
  if (root.has("http.read_token_file") && !names_tokens)
    load.problem("http.read_token_file",
                 "requires http.token_file, http.tokens_file or http.oidc: otherwise everyone may write");
  if (std::ranges::any_of(http.read_tokens,
                          [&](const auto& one) { return std::ranges::count(http.tokens, one) > 0; }))
    load.problem("http.read_token_file", "contains the same token as http.token_file: use different tokens");
  complete_listen(names_tokens, load);
}

// The checks of a config with an API, instead of all others.
void complete_api(Load& load) {
  const Node& root = load.root;
  for (const auto& [key, value] : root.entries) {
    if (key.text != "api")
      load.problem(key.text, "a config with api has nothing else: remove it, or remove api");
  }
  if (!root.has("api.url"))
    return load.problems.add(
        root.mark_at("api"),
        "api.url is missing: write api: { url: \"https://host:8025\", token_file: FILE }");
  if (!root.valid("api.url")) return;
  const auto url = parse_url(load.config.api.url);
  if (url->scheme == "http" && root.has("api.ca")) load.problem("api.ca", "only with https://");
  const bool in_clear = url->scheme == "http" && !is_loopback(url->host);
  if (in_clear && root.has("api.token_file"))
    load.problem("api.url",
                 "http:// would send the token in plain text: use https:// (http:// only for this machine)");
  else if (in_clear)
    load.warn(root, "api.url", "http:// sends everything in plain text: use https://");
  if (load.purpose != ConfigFor::check && load.purpose != ConfigFor::api &&
      load.purpose != ConfigFor::reading)
    load.problems.add(root.mark_at("api"), std::string(kOnlyApi));
}

}  // namespace

std::string host_name() {
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

QueueGroups groups_of(const Load& load) {
  QueueGroups groups;
  for (const auto& [key, node] : load.root.entries_at("groups")) {
    QueueGroups::Group group{key.text, "rung-" + key.text, {}};
    fill(node, group);
    groups.all.push_back(std::move(group));
  }
  return groups;
}

Reader<Role> role() {
  return choice(Texts(kWords<Role>.begin(), kWords<Role>.end())).to([](const std::string& word) {
    return *from_word<Role>(word);
  });
}

Reader<QueueScopePtr> queue_scope() {
  const std::string wanted =
      "a list of names, * matches any characters: [orders, \"billing.*\"]; leave it out for all queues";
  return list_of("list of names", wanted, queue_pattern(), 100)
      .not_empty("expected " + wanted)
      .to([](std::vector<QueuePattern> all) -> QueueScopePtr {
        return std::make_shared<const QueueScope>(std::move(all));
      });
}

void complete(Load& load) {
  if (load.root.has("api")) return complete_api(load);
  Config& config = load.config;
  complete_services(load);
  check_times(load);
  complete_node(load);
  complete_delays(load);
  complete_http(load);
  config.dialects = read_dialects(load);
  if (load.root.valid("dialects")) {
    for (const auto& [name, dialect] : config.dialects)
      config.at_start["dialects " + name].shown = dialect->text;
  }
  config.store.cause_rules = build_cause_rules(load);
  config.rules = build_rules(load);
  if (config.rules != nullptr) config.broker.error_queues = config.rules->error_queues_ptr();
  for (const QueueGroups::Group& group : config.groups.all)
    config.broker.group_prefixes.push_back(group.prefix);
}

}  // namespace confile
}  // namespace rung
