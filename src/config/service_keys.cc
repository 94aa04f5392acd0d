// The keys of services (broker, database, HTTP, identity provider, collector), groups and the process. A new
// key needs a row here or in rule_keys.cc, a line in examples/full.yaml and a row in docs/configuration.md;
// tests/unit/config/keys_test.cc compares the three.
#include <algorithm>
#include <cstdlib>

#include "src/config/load.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"

namespace rung::confile {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using enum When;

std::optional<std::string> read_prefix(Value& v) {
  auto prefix = name()(v);
  if (prefix && prefix->starts_with("amq."))
    return v.wrong("names that begin with amq. are reserved for the broker");
  return prefix;
}

// "%H-%i": one file for several instances. Not the process id: a restart under the same name takes back its
// shards at once.
std::optional<std::string> read_node(Value& v) {
  const char* const instance = std::getenv("RUNG_INSTANCE");  // NOLINT: nobody in this program sets variables
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
  Value whole{v.load, filled, v.path, v.secret};
  return name()(whole);
}

std::optional<Texts> read_index_headers(Value& v) {
  constexpr std::size_t kMostIndexed = 16, kLongestHeader = 128;
  if (!v.is_list("a list of header names, e.g. [tenant, region]")) return std::nullopt;
  Texts all;
  const auto read = v.each([&](Value& item) {
    auto header = amqp_name()(item);
    if (header && header->size() > kLongestHeader) {
      item.wrong("an indexed header name has at most 128 bytes");
      header.reset();
    } else if (header && std::ranges::find(all, *header) == all.end()) {
      all.push_back(*header);
    }
    return header;
  });
  if (!read) return std::nullopt;
  if (all.size() > kMostIndexed) return v.wrong("at most 16 headers can be indexed");
  return all;
}

// `instead`: where the login goes.
Reader<std::string> url_without_user(const Texts& schemes, const std::string& instead = "") {
  return {"URL", [=](Value& v) -> std::optional<std::string> {
            auto text = url(schemes)(v);
            const auto parsed = parse_url(text.value_or(""));
            if (parsed && !(parsed->user + parsed->password).empty())
              return v.wrong("the URL must have no user" + instead);
            return text;
          }};
}

std::string without_end_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The address of an API that people open in a browser.
std::optional<std::string> read_page_url(Value& v) {
  const auto url = url_without_user({"http", "https"})(v);
  // It goes into cookies and into redirects as it stands.
  if (url && url->find_first_of(";%,\"\\ ") != std::string::npos)
    return v.wrong("the URL must be an address and a plain path: https://example.com/rung");
  return url ? std::optional(without_end_slash(*url)) : url;
}

std::optional<Pairs> read_peers(Value& v) {
  constexpr std::size_t kMostPeers = 100;
  if (!v.is_map("names of groups and the URLs of their APIs: write { eu: https://rung-eu.example:8025 }"))
    return std::nullopt;
  if (v.node.entries.size() > kMostPeers) return v.wrong("at most 100 are allowed");
  return v.each_entry(name(), read_page_url);
}

std::optional<std::string> read_issuer(Value& v) {
  auto text = url_without_user({"https", "http"})(v);
  if (!text) return text;
  const auto url = parse_url(*text);
  if (url->scheme == "http" && !is_loopback(url->host))
    return v.wrong("must be an https:// URL: whoever changes the provider's answers would be let in");
  if (text->find('#') != std::string::npos) return v.wrong("the URL must have no #fragment");
  if (text->ends_with("/.well-known/openid-configuration"))
    return v.wrong("remove /.well-known/openid-configuration from the end: Rung appends it");
  return text;
}

// A text that is compared with one in a token.
std::optional<std::string> read_claim_text(Value& v) {
  constexpr std::size_t kLongest = 255;
  auto out = text()(v);
  if (out && out->size() > kLongest) return v.wrong("at most 255 bytes are allowed");
  if (out && (!is_utf8(*out) || escape_controls(*out) != *out))
    return v.wrong("must be UTF-8 without control characters");
  return out;
}

std::optional<Texts> read_clients(Value& v) {
  constexpr std::size_t kMostClients = 100;
  if (!v.is_list("a list of client ids: [ci, grafana]")) return std::nullopt;
  if (v.node.items.size() > kMostClients) return v.wrong("at most 100 are allowed");
  return v.each(read_claim_text);
}

std::optional<std::string> read_roles_claim(Value& v) {
  auto out = read_claim_text(v);
  // It is shown to clients, in a header too.
  if (out && std::ranges::any_of(*out, [](char c) { return c <= ' ' || c >= 0x7f || c == '"' || c == '\\'; }))
    return v.wrong("only visible ASCII characters without \" and \\ are allowed");
  return out;
}

// A role, or a role with queues.
std::optional<OidcGrant> read_grant(Value& v) {
  static const Table kTable{
      {{"role", role_word(), "", start}, {"queues", own("list of names", read_queue_scope), "", start}}, {}};
  OidcGrant out;
  if (v.node.kind != Node::Kind::map) {
    const auto word = role_word()(v);
    if (word) out.role = *role_from(*word);
    return word ? std::optional(out) : std::nullopt;
  }
  const auto before = v.load.problems.count();
  Load grant{v.load.problems};
  grant.root = v.node;
  walk(grant, kTable, v.path);
  if (!grant.root.has("role"))
    return v.wrong("role is missing: write { role: operator, queues: [\"billing.*\"] }");
  if (v.load.problems.count() != before || !grant.root.valid("role")) return std::nullopt;
  return OidcGrant{*role_from(grant.root.text_at("role")),
                   grant.root.get<QueueScopePtr>("queues").value_or(nullptr)};
}

std::optional<OidcOptions::Map> read_role_map(Value& v) {
  constexpr std::size_t kMostGrants = 1000;
  const std::string wanted = "groups and their roles: write { rung-admins: admin, sre: operator }";
  if (!v.is_map(wanted)) return std::nullopt;
  if (v.node.entries.empty()) return v.wrong("expected " + wanted);
  if (v.node.entries.size() > kMostGrants) return v.wrong("at most 1000 are allowed");
  const auto all = v.each_entry(read_claim_text, read_grant);
  return all ? std::optional(OidcOptions::Map(all->begin(), all->end())) : std::nullopt;
}

std::optional<std::string> read_endpoint(Value& v) {
  const auto text =
      url_without_user({"http", "https"}, ": put the credentials into otel.headers, as authorization")(v);
  if (!text) return text;
  const std::string url = without_end_slash(*text);
  if (url.ends_with("/v1/traces")) return v.wrong("remove /v1/traces from the end: Rung appends it");
  return url;
}

std::optional<std::string> read_protocol(Value& v) {
  constexpr std::string_view kOnly = "http/json";
  if (!v.is_text(kOnly)) return std::nullopt;
  if (v.node.text == kOnly) return v.node.text;
  return v.wrong(
      v.shown() +
      " is not supported: the only protocol is http/json. Collectors accept it on port 4318 (4317 is "
      "gRPC)");
}

std::optional<std::string> read_header_name(Value& v) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";  // by RFC 9110
  const std::string& name = v.node.text;
  if (!name.empty() && std::ranges::all_of(name, [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               kMarks.find(c) != std::string_view::npos;
      }))
    return name;
  return v.wrong("the name of a header has letters, digits and - _ .");
}

std::optional<std::string> read_header_value(Value& v) {
  constexpr std::size_t kLongest = 4096;
  auto value = text()(v);
  if (value &&
      (value->size() > kLongest || std::ranges::any_of(*value, [](char c) { return c < ' ' || c > '~'; })))
    return v.wrong("the value of a header is printable ASCII, at most 4096 bytes");
  return value;
}

std::optional<Pairs> read_otel_headers(Value& v) {
  if (!v.is_map("headers: write { authorization: \"Bearer ${TOKEN}\" }")) return std::nullopt;
  return v.each_entry(read_header_name, read_header_value);
}

std::optional<double> read_sample(Value& v) {
  const auto share = number()(v);
  if (share && *share > 1) return v.wrong(v.shown() + " is too high: 1 means all tasks, 0.1 a tenth of them");
  return share;
}

}  // namespace

// clang-format off
std::vector<Key> service_keys() {
  return {
    {"broker.url", url({"amqp", "amqps"}), "", secret},
    {"broker.urls", urls({"amqp", "amqps"}), "", secret},
    {"broker.password_file", &BrokerOptions::password_file, file(), "", start},
    {"broker.prefix", &BrokerOptions::prefix, own("name", read_prefix), "rung", start},
    {"broker.ca", &BrokerOptions::ca, file(), "", start},
    {"broker.cert", &BrokerOptions::cert, file(), "", start},
    {"broker.key", &BrokerOptions::key, file(), "", start},
    {"broker.verify_host", &BrokerOptions::verify_host, boolean(), "true", start},
    {"broker.prefetch", &BrokerOptions::prefetch, integer(1, 65535), "1000", start},
    {"broker.max_unconfirmed", &BrokerOptions::max_unconfirmed, integer(1, 100'000), "2000", start},
    {"broker.heartbeat", &BrokerOptions::heartbeat, whole_seconds(seconds{1}, minutes{5}), "10s", start},
    {"broker.topology_check", &rabbit::Options::topology_check, duration(Ms{100}, hours{1}), "30s", start},
    {"broker.queue_type", &rabbit::Options::queue_type, choice({"auto", "classic", "quorum"}), "auto", start},
    {"broker.management", &rabbit::Options::management, url({"http", "https"}), "", secret},
    {"broker.attachment_check", &Config::attachment_check, duration(seconds{1}, hours{24}), "1m", start},
    {"broker.targets.allow", names(), "", live},
    {"broker.targets.deny", names(), "", live},
    {"results.require_token", &Config::require_token, boolean(), "true", start},
    {"store.url", url({"mysql"}), "", secret},
    {"store.urls", urls({"mysql"}), "", secret},
    {"store.password_file", &StoreOptions::password_file, file(), "", start},
    {"store.migrate", &StoreOptions::migrate, boolean(), "true", start},
    {"store.tls", &StoreOptions::tls, choice({"off", "verify"}), "off", start},
    {"store.ca", &StoreOptions::ca, file(), "", start},
    {"store.cert", &StoreOptions::cert, file(), "", start},
    {"store.key", &StoreOptions::key, file(), "", start},
    {"store.connections", &StoreOptions::connections, integer(1, 64), "3", start},
    {"store.timeout", &StoreOptions::timeout, whole_seconds(seconds{1}, minutes{10}), "10s", start},
    {"groups.*.prefix", own("name", read_prefix), "rung-NAME", start},
    {"groups.*.queues", names(), "", live},
    {"groups.*.store.url", url({"mysql"}), "", secret},
    {"groups.*.store.urls", urls({"mysql"}), "", secret},
    {"groups.*.store.password_file", file(), "", start},
    {"groups.*.http.listen", host_port(), "", start},
    {"node", &Config::node, own("name", read_node), "", start},
    {"lease", &Config::lease, duration(seconds{1}, hours{1}), "10s", start},
    {"window", &Config::window, duration(seconds{1}, hours{7 * 24}), "10m", start},
    {"drain", &Config::drain, duration(Ms{100}, hours{1}), "10s", start},
    {"start.wait", &Config::start_wait, duration(Ms{0}, hours{1}), "30s", start},
    {"max_loaded", &Config::max_loaded, integer(1, 100'000'000), "1000000", start},
    {"index_headers", &StoreOptions::index_headers, own("list of names", read_index_headers), "", start},
    {"log.level", &LogOptions::level, choice({"trace", "debug", "info", "warn", "error"}), "info", live},
    {"log.format", &LogOptions::format, choice({"text", "json"}), "text", live},
    {"http.listen", &HttpOptions::listen, host_port(), "", start},
    {"http.token_file", &HttpOptions::token_file, file(), "", start},
    {"http.read_token_file", &HttpOptions::read_token_file, file(), "", start},
    {"http.tokens_file", &HttpOptions::tokens_file, file(), "", start},
    {"http.cert", &HttpOptions::cert, file(), "", start},
    {"http.key", &HttpOptions::key, file(), "", start},
    {"http.connections", &HttpOptions::connections, integer(1, 512), "64", start},
    {"http.connections_per_address", &HttpOptions::connections_per_address, integer(0, 512), "0", start},
    {"http.max_body", &HttpOptions::max_body, integer(1, 1024), "16", start},
    {"http.timeout", &HttpOptions::timeout, duration(Ms{100}, minutes{10}), "10s", start},
    {"http.console", &HttpOptions::console, boolean(), "", start},
    {"http.url", &HttpOptions::url, own("URL", read_page_url), "", start},
    {"http.peers", &HttpOptions::peers, own("map of names to URLs", read_peers), "", start},
    {"http.oidc.issuer", &OidcOptions::issuer, own("URL", read_issuer), "", start},
    {"http.oidc.client_id", &OidcOptions::client_id, own("text", read_claim_text), "", start},
    {"http.oidc.clients", &OidcOptions::clients, own("list of names", read_clients), "", live},
    {"http.oidc.roles_claim", &OidcOptions::roles_claim, own("text", read_roles_claim), "", start},
    {"http.oidc.map", &OidcOptions::map, own("map of names to roles", read_role_map), "", live},
    {"http.oidc.client_secret_file", &OidcOptions::client_secret_file, file(), "", start},
    {"http.oidc.scope", &OidcOptions::scope, own("text", read_claim_text), "", start},
    {"http.oidc.ca", &OidcOptions::ca, file(), "", start},
    {"otel.endpoint", &OtelOptions::endpoint, own("URL", read_endpoint), "", start},
    {"otel.protocol", own("http/json", read_protocol), "http/json", start},
    {"otel.service", &OtelOptions::service, name(), "rung", start},
    {"otel.headers", &OtelOptions::headers, own("map of names to texts", read_otel_headers), "", secret},
    {"otel.ca", &OtelOptions::ca, file(), "", start},
    {"otel.verify", &OtelOptions::verify, boolean(), "true", start},
    {"otel.sample", &OtelOptions::sample, own("number from 0 to 1", read_sample), "1", start},
    {"api.url", &ApiOptions::url, url_without_user({"http", "https"}, ": the API takes a token, in the file api.token_file"), "", start},
    {"api.token_file", &ApiOptions::token_file, file(), "", start},
    {"api.ca", &ApiOptions::ca, file(), "", start},
  };
}
// clang-format on

}  // namespace rung::confile
