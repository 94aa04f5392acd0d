// The table of keys, and the readers of their types. A new key needs a row here, a line in
// examples/full.yaml and a row in docs/configuration.md; tests/unit/config/keys_test.cc compares the three.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "src/config/load.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"

namespace rung::confile {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using enum When;

constexpr int kMostCatchUp = 1'000'000, kMostAttempts = 1'000'000;
constexpr int kMostOutcomes = 1000, kMostProbes = 100;

// "a, b or c"
std::string join(const Texts& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

}  // namespace

Reader<std::string> text(std::size_t most) {
  return {"text", [=](Value& v) -> std::optional<std::string> {
            if (!v.is(Node::Kind::text, "a string")) return std::nullopt;
            if (v.node.text.empty()) return v.wrong("must not be empty");
            if (v.node.text.find('\0') != std::string::npos) return v.wrong("must not contain a NUL byte");
            if (v.node.text.size() > most) return v.wrong(fmt::format("at most {} bytes are allowed", most));
            return v.node.text;
          }};
}

Reader<std::string> amqp_name() { return text(255).as("name"); }

Reader<std::string> choice(const Texts& words) {
  return {join(words), [words](Value& v) -> std::optional<std::string> {
            if (!v.is(Node::Kind::text, join(words))) return std::nullopt;
            if (std::ranges::find(words, v.node.text) != words.end()) return v.node.text;
            return v.wrong(v.shown() + " is not " + join(words) +
                           (v.may_quote() ? did_you_mean(v.node.text, words) : ""));
          }};
}

Reader<std::string> name(std::size_t most) {
  return text(most).where(is_plain, " has invalid characters: use letters, digits and . _ -").as("name");
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::string place_of(const Url& url) {
  return url.host_port(url.scheme == "mysql" ? 3306 : url.scheme == "amqps" ? 5671 : 5672);
}

namespace {

Reader<Ms> duration(Ms least = Ms{1}, Ms most = levels::kLongest) {
  return {
      "duration", [=](Value& v) -> std::optional<Ms> {
        if (!v.is(Node::Kind::text, "a duration, e.g. 30s or 1h30m")) return std::nullopt;
        const auto parsed = levels::parse_duration(v.node.text);
        if (!parsed) {
          if (v.may_quote()) return v.wrong(in_quotes(v.node.text) + ": " + parsed.error());
          // The parser's error would quote a part of it.
          return v.wrong(v.shown() +
                         " is not a duration: a number and a unit (ms, s, m, h, d), e.g. 30s, 5m or 1h30m");
        }
        if (*parsed < least)
          return v.wrong(v.shown() + " is too short: at least " + levels::format_duration(least));
        if (*parsed > most)
          return v.wrong(v.shown() + " is too long: at most " + levels::format_duration(most));
        return *parsed;
      }};
}

Reader<Ms> whole_seconds(Ms least, Ms most) {
  return duration(least, most)
      .where([](Ms value) { return value.count() % 1000 == 0; },
             " is not a whole number of seconds, e.g. 10s")
      .as("whole seconds");
}

Reader<int> integer(int least, int most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return {range, [=](Value& v) -> std::optional<int> {
            const std::string wanted = "an integer from " + range;
            if (!v.is(Node::Kind::text, wanted)) return std::nullopt;
            const auto value = number_from<int>(v.node.text);
            if (!value || *value < least || *value > most) return v.wrong(v.shown() + " is not " + wanted);
            return value;
          }};
}

Reader<double> number() {
  return {"number", [](Value& v) -> std::optional<double> {
            constexpr std::string_view kWanted = "a number, e.g. 2 or 1.5";
            if (!v.is(Node::Kind::text, kWanted)) return std::nullopt;
            // number_from() takes "inf" and "nan" too, which are no numbers here.
            const std::string& text = v.node.text;
            const bool plain = text.find_first_not_of("0123456789.") == std::string::npos;
            const auto value = plain ? number_from<double>(text) : std::nullopt;
            return value ? value : v.wrong(v.shown() + " is not " + std::string(kWanted));
          }};
}

Reader<double> percent_or_off() {
  return {"off, or 0% to 100%", [](Value& v) -> std::optional<double> {
            const std::string wanted = "off, or a percentage from 0% to 100%, e.g. 20%";
            if (!v.is(Node::Kind::text, wanted)) return std::nullopt;
            if (v.node.text == "off") return 0.0;
            std::string_view digits = v.node.text;
            const bool has_sign = digits.ends_with('%');
            if (has_sign) digits.remove_suffix(1);
            const auto percent = has_sign ? number_from<int>(digits) : std::nullopt;
            if (!percent || *percent < 0 || *percent > 100) return v.wrong(v.shown() + " is not " + wanted);
            return *percent / 100.0;
          }};
}

Reader<bool> boolean() { return choice<bool>({{"true", true}, {"false", false}}); }

// A file's path; relative paths start at the config's directory. The file must be readable, if the purpose
// needs it.
Reader<std::string> file() {
  return {"file", [](Value& v) -> std::optional<std::string> {
            auto full = text()(v);
            if (!full) return full;
            if (!full->starts_with('/') && !v.load.folder.empty()) *full = v.load.folder + "/" + *full;
            const auto start =
                v.load.reads_files_of(v.node.path) ? read_start(*full, 1) : Result<std::string>();
            if (start) return full;
            const std::string which =
                v.may_quote() ? in_quotes(*full) : "the file named by " + in_quotes(v.node.written);
            const std::string what = which + " " + start.error().message;
            if (v.load.purpose != ConfigFor::check) return v.wrong(what);
            v.load.warn(v.node, "", what + "; `rung run` will not start");
            return std::nullopt;  // its content cannot be checked
          }};
}

// Once a file. `what`: of it is secret.
void warn_if_readable(const Value& v, const std::string& file, const std::string& what) {
  constexpr mode_t kOthers = S_IRWXO, kAll = 07777;
  struct stat about {};
  if (!v.load.reports_warnings() || stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode) ||
      (about.st_mode & kOthers) == 0 || !v.load.open_secrets.insert(file).second)
    return;
  v.load.problems.warn(v.node.mark, fmt::format("{} {}, and every user of this machine can read {} (mode "
                                                "{:04o}): chmod 640 {} (or 600)",
                                                v.node.path, what, file, about.st_mode & kAll, file));
}

// As file(); warns if every user of this machine can read it.
Reader<std::string> secret_file() {
  return {"file", [read = file()](Value& v) {
            const auto path = read(v);
            if (path) warn_if_readable(v, *path, "is secret");
            return path;
          }};
}

// A key that is secret: warns if every user can read the config, and there is a password in the URL.
Reader<std::string> url(const Texts& schemes) {
  return {"URL", [schemes](Value& v) -> std::optional<std::string> {
            if (!v.is(Node::Kind::text, "a URL")) return std::nullopt;
            const auto parsed = parse_url(v.node.text);
            if (!parsed) return v.wrong(parsed.error().message);
            if (std::ranges::find(schemes, parsed->scheme) == schemes.end())
              return v.wrong(
                  "the URL must begin with " + join(schemes) +
                  (schemes.size() > 1 ? ", followed by ://" : "://") +
                  (schemes.front() == "mysql" ? ": the databases supported are MySQL and MariaDB" : ""));
            if (!parsed->query.empty())
              return v.wrong("a ?query in the URL is not supported: use the config keys");
            if (v.secret && !v.node.substituted && !parsed->password.empty())
              warn_if_readable(v, v.load.problems.file(), "contains a password");
            return v.node.text;
          }};
}

Reader<Url> one_address(const Texts& schemes) {
  return url(schemes)
      .to([](const std::string& text) { return *parse_url(text); })
      .where([](const Url& url) { return url.scheme != "mysql" || !(url.path.empty() || url.user.empty()); },
             "the user or the schema is missing: mysql://user:password@host:port/schema");
}

Reader<Urls> address(const Texts& schemes) {
  return one_address(schemes).to([](Url url) { return Urls{std::move(url)}; });
}

// Several of one service: a list, or a comma-separated string (for environment variables).
Reader<Urls> addresses(const Texts& schemes) {
  return {"list of URLs", [schemes, one = one_address(schemes)](Value& v) -> std::optional<Urls> {
            if (v.node.kind == Node::Kind::text && !v.node.invalid) {
              const Node whole = v.node;
              v.node.kind = Node::Kind::list;
              for (std::string_view rest = whole.text;;) {
                const auto comma = rest.find(',');
                Node& item = v.node.items.emplace_back(whole);
                item.text = rest.substr(0, comma);
                item.text.erase(0, item.text.find_first_not_of(' '));
                item.text.erase(item.text.find_last_not_of(' ') + 1);
                if (comma == std::string_view::npos) break;
                rest.remove_prefix(comma + 1);
              }
            }
            if (!v.is(Node::Kind::list, "a list of URLs: [" + schemes[0] + "://HOST, ...]"))
              return std::nullopt;
            if (v.node.items.empty()) return v.wrong("the list is empty: at least one URL is required");
            Urls before;
            return v.each([&, n = 0](Value& item) mutable -> std::optional<Url> {
              item.node.path += fmt::format("[{}]", ++n);
              auto url = one(item);
              if (!url) return url;
              for (const Url& other : before) {
                if (other.scheme != url->scheme || other.vhost() != url->vhost())
                  return item.wrong(
                      "another scheme, virtual host or schema than in those before: all "
                      "addresses must belong to one service");
                if (place_of(other) == place_of(*url))
                  return item.wrong("the same host and port as one before: remove it");
              }
              before.push_back(*url);
              return url;
            });
          }};
}

Reader<Url> host_port() {
  const auto fits = [](const std::string& text) {
    const auto parsed = parse_url("tcp://" + text);
    return parsed && parsed->port != 0 && parsed->path.empty() && parsed->user.empty() &&
           text.find_first_of("/@?#") == std::string::npos;
  };
  return text()
      .where(fits, " is not host:port, e.g. 127.0.0.1:8025 or [::1]:8025")
      .as("host:port")
      .to([](const std::string& text) { return *parse_url("tcp://" + text); });
}

Reader<Texts> names() {
  return list_of("list of names", "a list of names, * matches any characters: [orders, \"billing.*\"]",
                 amqp_name());
}

Reader<std::string> prefix() {
  return name().where([](const std::string& text) { return !text.starts_with("amq."); },
                      "names that begin with amq. are reserved for the broker");
}

// "%H-%i": one file for several instances. Not the process id: a restart under the same name takes back its
// shards at once.
std::optional<std::string> read_node(Value& v) {
  const char* const instance =
      std::getenv("RUNG_INSTANCE");  // NOLINT: this program never changes its environment
  const bool has_instance = instance != nullptr && *instance != '\0';
  Node filled = v.node;
  for (std::size_t at = 0; (at = filled.text.find('%', at)) != std::string::npos;) {
    const std::string_view which = std::string_view(filled.text).substr(at, 2);
    if (which == "%i" && !has_instance && v.load.purpose == ConfigFor::sidecar)
      return v.wrong(
          "%i is the value of the environment variable RUNG_INSTANCE, which is not set: "
          "rung@NAME.service sets it to NAME; elsewhere set it to a name of this instance");
    if (which != "%H" && which != "%i")
      return v.wrong("% begins %H (the host name) or %i (the variable RUNG_INSTANCE)");
    const std::string value = which == "%H" ? host_name() : has_instance ? instance : "i";
    filled.text.replace(at, 2, value);
    at += value.size();
  }
  Value whole{v.load, filled, v.secret};
  return name()(whole);
}

Reader<Texts> index_headers() {
  return list_of("list of names", "a list of header names, e.g. [tenant, region]", text(128), 16)
      .to([](const Texts& headers) {
        Texts once;
        for (const std::string& header : headers) {
          if (std::ranges::find(once, header) == once.end()) once.push_back(header);
        }
        return once;
      });
}

// `instead`: where the login goes.
Reader<std::string> url_without_user(const Texts& schemes, const std::string& instead = "") {
  const auto fits = [](const std::string& text) {
    const auto url = parse_url(text);
    return url && (url->user + url->password).empty();
  };
  return url(schemes).where(fits, "the URL must have no user" + instead);
}

std::string without_end_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

// The address of an API that people open in a browser. It goes into cookies and into redirects as it stands.
Reader<std::string> page_url() {
  return url_without_user({"http", "https"})
      .where([](const std::string& url) { return url.find_first_of(";%,\"\\ ") == std::string::npos; },
             "the URL must be an address and a plain path: https://example.com/rung")
      .to(without_end_slash);
}

std::optional<std::string> read_issuer(Value& v) {
  auto text = url_without_user({"https", "http"})(v);
  if (!text) return text;
  const auto url = parse_url(*text);
  if (url->scheme == "http" && !is_loopback(url->host))
    return v.wrong(
        "must be an https:// URL: over http:// an attacker on the network can forge the provider's answers");
  if (text->find('#') != std::string::npos) return v.wrong("the URL must have no #fragment");
  if (text->ends_with("/.well-known/openid-configuration"))
    return v.wrong("remove /.well-known/openid-configuration from the end: Rung appends it");
  return text;
}

// A text that is compared with one in a token.
Reader<std::string> claim_text() {
  return text(255).where(
      [](const std::string& text) { return is_utf8(text) && escape_controls(text) == text; },
      "must be UTF-8 without control characters");
}

// It is shown to clients, in a header too.
Reader<std::string> roles_claim() {
  const auto is_visible = [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; };
  return claim_text().where([=](const std::string& text) { return std::ranges::all_of(text, is_visible); },
                            "only visible ASCII characters without \" and \\ are allowed");
}

// A role, or a role with queues.
std::optional<OidcGrant> read_grant(Value& v) {
  static const Table kTable{{{"role", &OidcGrant::role, role(), "", start},
                             {"queues", &OidcGrant::queues, queue_scope(), "", start}}};
  OidcGrant out;
  if (v.node.kind != Node::Kind::map) {
    const auto word = role()(v);
    if (word) out.role = *word;
    return word ? std::optional(out) : std::nullopt;
  }
  if (!v.read_by(kTable)) return std::nullopt;
  if (!v.node.has("role"))
    return v.wrong("role is missing: write { role: operator, queues: [\"billing.*\"] }");
  fill(v.node, out);
  return out;
}

Reader<OidcOptions::Map> role_map() {
  const std::string wanted = "groups and their roles: write { rung-admins: admin, sre: operator }";
  return map_of<OidcOptions::Map>("map of names to roles", wanted, claim_text(), own("role", read_grant),
                                  1000)
      .not_empty("expected " + wanted);
}

Reader<std::string> endpoint() {
  return url_without_user({"http", "https"}, ": put the credentials into otel.headers, as authorization")
      .to(without_end_slash)
      .where([](const std::string& url) { return !url.ends_with("/v1/traces"); },
             "remove /v1/traces from the end: Rung appends it");
}

Reader<std::string> header_name() {
  const auto fits = [](char c) {  // by RFC 9110
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return text().where([=](const std::string& name) { return std::ranges::all_of(name, fits); },
                      "the name of a header has letters, digits and - _ .");
}

Reader<std::string> header_value() {
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  return text().where(
      [=](const std::string& text) { return text.size() <= 4096 && std::ranges::all_of(text, is_printable); },
      "the value of a header is printable ASCII, at most 4096 bytes");
}

// Below an hour, people could not inspect tasks that just ended, and late events (a result, a redelivery
// after a broker restart, a failure after a presumed success) would not find their task.
std::optional<std::optional<Ms>> read_retention(Value& v) {
  if (!v.node.invalid && v.node.kind == Node::Kind::text && v.node.text == "off") return std::optional<Ms>();
  return duration()
      .where([](Ms keep) { return keep >= hours{1}; },
             " is too short: at least 1h, so that late results and failures still find their task")
      .to([](Ms keep) { return std::optional(keep); })(v);
}

Reader<std::vector<Ms>> delays() {
  // The ladder checks for zero and for the order of the delays.
  return list_of("list of durations",
                 "a list of delays, e.g. [5s, 30s, 1m], or { base: 10s, factor: 2, max: 1h, levels: 12 }",
                 duration(Ms{0}));
}

std::optional<Levels> read_levels(Value& v) {
  const auto as_levels = [](auto value) { return Levels(value); };
  if (v.node.kind == Node::Kind::list) return delays().to(as_levels)(v);
  return integer(1, levels::Ladder::kMostLevels).to(as_levels)(v);
}

// "200/s", as publishes a second.
std::optional<double> read_rate(Value& v) {
  constexpr double kMost = 100'000, kMinute = 60, kHour = 3600;
  if (!v.is(Node::Kind::text, "a rate, e.g. 200/s")) return std::nullopt;
  const std::string_view text = v.node.text, count = text.substr(0, text.find('/')),
                         unit = text.substr(count.size());
  const double of = unit == "/s" ? 1 : unit == "/m" ? kMinute : unit == "/h" ? kHour : 0;
  const bool digits = count.find_first_not_of("0123456789") == std::string_view::npos;
  const auto number = digits ? number_from<double>(count) : std::nullopt;
  if (!number || of == 0)
    return v.wrong(v.shown() + " is not a rate: write a whole number and /s, /m or /h, e.g. 200/s");
  if (*number / of > kMost) return v.wrong(v.shown() + " is too high: at most 100000/s");
  if (*number == 0) return v.wrong(v.shown() + " is too low: at least 1/h");
  return *number / of;
}

// Headers that begin with retry- are Rung's own. `instead`: what to name.
Reader<std::string> users_header(const std::string& instead) {
  return amqp_name().where([](const std::string& text) { return !text.starts_with("retry-"); },
                           "Rung removes headers that begin with retry-: " + instead);
}

// Checks a part of a window alone, so that an error has its position.
bool check_window(const Value& v, const Texts& allow, const std::string& zone, const std::string& otherwise) {
  const auto parsed = TimeWindow::parse(allow, zone);
  if (parsed) return true;
  // The message quotes the text as it is.
  const bool plain = in_quotes(v.node.text) == "\"" + v.node.text + "\"";
  v.wrong(v.may_quote() && plain ? parsed.error().message : v.shown() + otherwise);
  return false;
}

std::optional<std::string> read_window_time(Value& v) {
  auto times = text()(v);
  const bool ok = times && check_window(v, {*times}, "UTC",
                                        " is not a time of the week: write e.g. \"Mon-Fri 08:00-18:00\"");
  return ok ? times : std::nullopt;
}

std::optional<std::string> read_zone(Value& v) {
  const Texts always{"00:00-24:00"};
  auto zone = text()(v);
  if (!zone || TimeWindow::parse(always, *zone)) return zone;
  const std::string near = v.may_quote() ? did_you_mean(*zone, time_zones()) : "";
  if (!near.empty()) return v.wrong(v.shown() + ": unknown time zone" + near);
  check_window(v, always, *zone, " is not a time zone: write e.g. Europe/Berlin");
  return std::nullopt;
}

std::optional<RuleRegex> read_regex(Value& v) {
  const auto expression = text()(v);
  if (!expression) return std::nullopt;
  const auto regex = parse_rule_regex(*expression);
  if (regex) return *regex;
  // The library's message quotes a part of the expression.
  return v.wrong(v.may_quote() ? regex.error().message : v.shown() + " is not a regular expression");
}

Reader<RuleHeaders> headers() {
  const std::string wanted = "header names with patterns, e.g. { tier: gold }";
  return map_of<RuleHeaders>("names with patterns", wanted,
                             users_header("use type, error, reason or attempts_above"), amqp_name())
      .not_empty("expected " + wanted);
}

std::optional<RuleAction::Kind> read_action(Value& v) {
  const std::string& word = v.node.text;
  if (word == "snooze" || word == "delay")
    return v.wrong("the duration is missing: write { " + word + ": 5m }");
  if (word == "ladder" || word == "to") return v.wrong("the name is missing: write { " + word + ": NAME }");
  using enum RuleAction::Kind;
  return choice<RuleAction::Kind>({{"retry", retry}, {"park", park}, {"discard", discard}})(v);
}

std::vector<Key> all_keys() {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const Reader<bool> parked = choice<bool>({{"keep", false}, {"publish", true}});
  const Reader<bool> attachment = choice<bool>({{"required", true}, {"ignored", false}});
  const Reader<bool> pauses = choice<bool>({{"message", false}, {"queue", true}});
  const auto success = duration().to([](Ms after) { return Silence{Silence::Means::success, after}; });
  const auto failure = duration().to([](Ms after) { return Silence{Silence::Means::failure, after}; });
  const auto protocol = text()
                            .where([](const std::string& text) { return text == "http/json"; },
                                   " is not supported: the only protocol is http/json. Collectors accept it "
                                   "on port 4318 (4317 is gRPC)")
                            .as("http/json");
  const auto share = number()
                         .where([](double number) { return number <= 1; },
                                " is too high: 1 means all tasks, 0.1 a tenth of them")
                         .as("number from 0 to 1");
  const Reader<RuleRegex> regex = own("/regular expression/", read_regex);
  const Reader<RuleRegex> cause_regex =
      regex
          .where([](const RuleRegex& one) { return one.pattern.size() <= kCauseRegexBytes; },
                 "longer than " + std::to_string(kCauseRegexBytes) + " bytes")
          .where([](const RuleRegex& one) { return !one.matches(""); },
                 "the expression also matches no characters, and so every error");
  const Reader<Texts> patterns = one_or_list("pattern, or list of patterns", amqp_name());
  const Reader<Texts> only = patterns.not_empty("the list is empty: remove the key, and all failures count");
  const Reader<Texts> times =
      one_or_list("times of the week, or list of them", own("time", read_window_time))
          .not_empty("the list is empty, so the window never opens: write e.g. \"Mon-Fri 08:00-18:00\"");
  const auto waits = one_or_list("duration, or list of durations", duration(seconds{1}))
                         .not_empty("the list is empty: write e.g. [30s, 2m, 10m]");
  const Reader<Texts> clients =
      list_of("list of names", "a list of client ids: [ci, grafana]", claim_text(), 100);
  const auto peers =
      map_of<Pairs>("map of names to URLs",
                    "names of groups and the URLs of their APIs: write { eu: https://rung-eu.example:8025 }",
                    name(), page_url(), 100);
  const auto otel_headers =
      map_of<Pairs>("map of names to texts", "headers: write { authorization: \"Bearer ${TOKEN}\" }",
                    header_name(), header_value());
  const auto management = url({"http", "https"}).to([](const std::string& text) { return *parse_url(text); });
  const auto api_url =
      url_without_user({"http", "https"}, ": the API takes a token, in the file api.token_file");
  // clang-format off
  std::vector<Key> keys = {
    {"broker.url", &BrokerOptions::urls, address({"amqp", "amqps"}), "", secret},
    {"broker.urls", &BrokerOptions::urls, addresses({"amqp", "amqps"}), "", secret},
    {"broker.password_file", &BrokerOptions::password_file, secret_file(), "", start},
    {"broker.prefix", &BrokerOptions::prefix, prefix(), "rung", start},
    {"broker.ca", &BrokerOptions::ca, file(), "", start},
    {"broker.cert", &BrokerOptions::cert, file(), "", start},
    {"broker.key", &BrokerOptions::key, secret_file(), "", start},
    {"broker.verify_host", &BrokerOptions::verify_host, boolean(), "true", start},
    {"broker.prefetch", &BrokerOptions::prefetch, integer(1, 65535), "1000", start},
    {"broker.max_unconfirmed", &BrokerOptions::max_unconfirmed, integer(1, 100'000), "2000", start},
    {"broker.heartbeat", &BrokerOptions::heartbeat, whole_seconds(seconds{1}, minutes{5}), "10s", start},
    {"broker.topology_check", &rabbit::Options::topology_check, duration(Ms{100}, hours{1}), "30s", start},
    {"broker.queue_type", &rabbit::Options::queue_type, choice({"auto", "classic", "quorum"}), "auto", start},
    {"broker.management", &rabbit::Options::management, management, "", secret},
    {"broker.attachment_check", &Config::attachment_check, duration(seconds{1}, hours{24}), "1m", start},
    {"broker.targets.allow", &TargetRules::allow, names(), "", live},
    {"broker.targets.deny", &TargetRules::deny, names(), "", live},
    {"results.require_token", &Config::require_token, boolean(), "true", start},
    {"store.url", &StoreOptions::urls, address({"mysql"}), "", secret},
    {"store.urls", &StoreOptions::urls, addresses({"mysql"}), "", secret},
    {"store.password_file", &StoreOptions::password_file, secret_file(), "", start},
    {"store.migrate", &StoreOptions::migrate, boolean(), "true", start},
    {"store.tls", &StoreOptions::tls, choice({"off", "verify"}), "off", start},
    {"store.ca", &StoreOptions::ca, file(), "", start},
    {"store.cert", &StoreOptions::cert, file(), "", start},
    {"store.key", &StoreOptions::key, secret_file(), "", start},
    {"store.connections", &StoreOptions::connections, integer(1, 64), "3", start},
    {"store.timeout", &StoreOptions::timeout, whole_seconds(seconds{1}, minutes{10}), "10s", start},
    {"groups.*.prefix", &QueueGroups::Group::prefix, prefix(), "rung-NAME", start},
    {"groups.*.queues", &QueueGroups::Group::queues, names(), "", live},
    {"groups.*.store.url", address({"mysql"}), "", secret},
    {"groups.*.store.urls", addresses({"mysql"}), "", secret},
    {"groups.*.store.password_file", secret_file(), "", start},
    {"groups.*.http.listen", host_port(), "", start},
    {"node", &Config::node, own("name", read_node), "", start},
    {"lease", &Config::lease, duration(seconds{1}, hours{1}), "10s", start},
    {"window", &Config::window, duration(seconds{1}, hours{7 * 24}), "10m", start},
    {"drain", &Config::drain, duration(Ms{100}, hours{1}), "10s", start},
    {"start.wait", &Config::start_wait, duration(Ms{0}, hours{1}), "30s", start},
    {"max_loaded", &Config::max_loaded, integer(1, 100'000'000), "1000000", start},
    {"index_headers", &StoreOptions::index_headers, index_headers(), "", start},
    {"log.level", &LogOptions::level, choice({"trace", "debug", "info", "warn", "error"}), "info", live},
    {"log.format", &LogOptions::format, choice({"text", "json"}), "text", live},
    {"http.listen", &HttpOptions::listen, host_port(), "", start},
    {"http.token_file", &HttpOptions::token_file, secret_file(), "", start},
    {"http.read_token_file", &HttpOptions::read_token_file, secret_file(), "", start},
    {"http.tokens_file", &HttpOptions::tokens_file, secret_file(), "", start},
    {"http.cert", &HttpOptions::cert, file(), "", start},
    {"http.key", &HttpOptions::key, secret_file(), "", start},
    {"http.connections", &HttpOptions::connections, integer(1, 512), "64", start},
    {"http.connections_per_address", &HttpOptions::connections_per_address, integer(0, 512), "0", start},
    {"http.max_body", &HttpOptions::max_body, integer(1, 1024), "16", start},
    {"http.timeout", &HttpOptions::timeout, duration(Ms{100}, minutes{10}), "10s", start},
    {"http.console", &HttpOptions::console, boolean(), "", start},
    {"http.url", &HttpOptions::url, page_url(), "", start},
    {"http.peers", &HttpOptions::peers, peers, "", start},
    {"http.oidc.issuer", &OidcOptions::issuer, own("URL", read_issuer), "", start},
    {"http.oidc.client_id", &OidcOptions::client_id, claim_text(), "", start},
    {"http.oidc.clients", &OidcOptions::clients, clients, "", live},
    {"http.oidc.roles_claim", &OidcOptions::roles_claim, roles_claim(), "", start},
    {"http.oidc.map", &OidcOptions::map, role_map(), "", live},
    {"http.oidc.client_secret_file", &OidcOptions::client_secret_file, secret_file(), "", start},
    {"http.oidc.scope", &OidcOptions::scope, claim_text(), "", start},
    {"http.oidc.ca", &OidcOptions::ca, file(), "", start},
    {"otel.endpoint", &OtelOptions::endpoint, endpoint(), "", start},
    {"otel.protocol", protocol, "http/json", start},
    {"otel.service", &OtelOptions::service, name(), "rung", start},
    {"otel.headers", &OtelOptions::headers, otel_headers, "", secret},
    {"otel.ca", &OtelOptions::ca, file(), "", start},
    {"otel.verify", &OtelOptions::verify, boolean(), "true", start},
    {"otel.sample", &OtelOptions::sample, share, "1", start},
    {"api.url", &ApiOptions::url, api_url, "", start},
    {"api.token_file", &ApiOptions::token_file, secret_file(), "", start},
    {"api.ca", &ApiOptions::ca, file(), "", start},
    {"catch_up", integer(1, kMostCatchUp), "1000", live},
    {"retention", &Config::retention, own("duration, or off", read_retention), "off", live},
    {"parked", parked, "keep", live},
    {"ladders.*", delays(), "", live},
    {"ladders.*.base", &levels::Exponential::base, duration(), "", live},
    {"ladders.*.factor", &levels::Exponential::factor, number().as("number from 1"), "2", live},
    {"ladders.*.max", &levels::Exponential::max, duration(), "", live},
    {"ladders.*.levels", own("1 to 1000, or list of durations", read_levels), "", live},
    {"ladders.*.jitter", percent_or_off(), "off", live},
    {"queues.*.ladder", name(), "default", live},
    {"queues.*.success.presumed_after", &QueueRules::silence, success, "10m", live},
    {"queues.*.success.reported_within", &QueueRules::silence, failure, "", live},
    {"queues.*.catch_up", &QueueRules::catch_up, integer(1, kMostCatchUp), "1000", live},
    {"queues.*.parked", &QueueRules::publish_parked, parked, "keep", live},
    {"queues.*.late_by", &QueueRules::late_by, duration(), "", live},
    {"queues.*.attachment", &QueueRules::needs_attachment, attachment, "required", live},
    {"queues.*.rules", name(), "", live},
    {"queues.*.give_up.attempts", &GiveUp::attempts, integer(1, kMostAttempts), "", live},
    {"queues.*.give_up.after", &GiveUp::after, duration(), "", live},
    {"queues.*.gate.rate", &GateRules::rate, own("rate, e.g. 200/s", read_rate), "", live},
    {"queues.*.gate.rate_by.header", &RateBy::header, users_header("name a header of your messages"), "", live},
    {"queues.*.gate.rate_by.rate", &RateBy::per_second, own("rate, e.g. 5/s", read_rate), "", live},
    {"queues.*.gate.window.allow", times, "", live},
    {"queues.*.gate.window.zone", own("time zone", read_zone), "", live},
    {"queues.*.gate.breaker.open_after", &BreakerRules::open_after, integer(1, kMostOutcomes), "20", live},
    {"queues.*.gate.breaker.of_last", &BreakerRules::of_last, integer(1, kMostOutcomes), "100", live},
    {"queues.*.gate.breaker.only", &BreakerRules::only, only, "", live},
    {"queues.*.gate.breaker.wait", &BreakerRules::wait, waits, "[30s, 2m, 10m]", live},
    {"queues.*.gate.breaker.probes", &BreakerRules::probes, integer(1, kMostProbes), "1", live},
    {"queues.*.gate.breaker.probe_timeout", &BreakerRules::probe_timeout, duration(seconds{1}, hours{24}), "1m", live},
    {"queues.*.gate.breaker.close_after", &BreakerRules::close_after, integer(1, kMostOutcomes), "3", live},
    {"queues.*.gate.retry_after.cap", &RetryAfterRules::cap, duration(), "", live},
    {"queues.*.gate.retry_after.max", &RetryAfterRules::longest_hold, duration(seconds{1}, hours{24}), "10m", live},
    {"queues.*.gate.retry_after.pauses", &RetryAfterRules::pauses_queue, pauses, "message", live},
    {"tags.*.queue", &Target::queue, amqp_name(), "", live},
    {"tags.*.exchange", &Target::exchange, amqp_name(), "", live},
    {"tags.*.routing_key", &Target::routing_key, amqp_name().as("text"), "", live},
    {"tags.*.ladder", name(), "", live},
    {"tags.*.success.presumed_after", &TagRules::silence, success, "", live},
    {"tags.*.success.reported_within", &TagRules::silence, failure, "", live},
    {"rules.*.when.type", &RuleConditions::types, patterns, "", live},
    {"rules.*.when.error", &RuleConditions::error, regex, "", live},
    {"rules.*.when.reason", &RuleConditions::reasons, one_or_list("word, or list of words", choice(failure_reasons())), "", live},
    {"rules.*.when.header", &RuleConditions::headers, headers(), "", live},
    {"rules.*.when.tag", &RuleConditions::tags, patterns, "", live},
    {"rules.*.when.queue", &RuleConditions::queues, patterns, "", live},
    {"rules.*.when.attempts_above", &RuleConditions::attempts_above, integer(0, kMostAttempts), "", live},
    {"rules.*.when.age_above", &RuleConditions::age_above, duration(Ms{0}), "", live},
    {"rules.*.then", &RuleAction::kind, own("retry, park or discard; or keys", read_action), "", live},
    {"rules.*.then.snooze", &RuleAction::snooze, duration(), "", live},
    {"rules.*.then.delay", &RuleAction::delay, duration(), "", live},
    {"rules.*.then.ladder", name(), "", live},
    {"rules.*.then.to", &RuleAction::to, amqp_name(), "", live},
    {"rules.*.type_from", &FailureRule::type_from, regex, "", live},
    {"causes.*.match", cause_regex, "", start},
    {"causes.*.as", text(kCauseNameBytes), "", start},
    {"causes.*.mask", cause_regex, "", start},
    {"delays.*.from", amqp_name(), "", start},
    {"delays.*.to", amqp_name(), "", start},
    {"delays.*.group", amqp_name(), "", start},
    {"error_queues.*.from", &ErrorQueue::from, amqp_name().as("name or pattern"), "", start},
    {"error_queues.*.dialect", name(), "plain", start},
    {"error_queues.*.to", &ErrorQueue::to, amqp_name(), "", start},
    {"error_queues.*.ladder", name(), "", live},
    {"error_queues.*.group", name(), "", start},
    {"dialects", one_or_list("path or list of paths", file()), "", start},
  };
  // clang-format on
  // The defaults have the keys of queues.
  const auto of_queue = [](const Key& key) { return key.path.starts_with("queues.*"); };
  std::vector<Key> defaults;
  std::ranges::copy_if(keys, std::back_inserter(defaults), of_queue);
  for (Key& key : defaults) key.path.replace(0, std::string_view("queues.*").size(), "defaults");
  keys.insert(std::ranges::find_if(keys, of_queue), defaults.begin(), defaults.end());
  return keys;
}

}  // namespace

const Table& config_table() {
  static const Table table{all_keys(),
                           {{"rules.*", kRuleForm},
                            {"causes", kCauseForm},
                            {"delays", kDelayForm},
                            {"error_queues", kErrorQueueForm}}};
  return table;
}

}  // namespace rung::confile
