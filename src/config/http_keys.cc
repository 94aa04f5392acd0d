// The keys of the HTTP API and its console. The table: keys.h.
#include "src/config/draft.h"
#include "src/core/base/url.h"

namespace rung::confile {
namespace {

constexpr std::size_t kMostPeers = 100;
constexpr const char* kPeersForm = "{ eu: https://rung-eu.example:8025 }";

HttpOptions& http(Value& v) { return v.draft.config.http; }

// The address of an API that people open in a browser.
bool page_url(Value& v, std::string& url) {
  if (!v.url(url, {"http", "https"})) return false;
  const auto parsed = parse_url(url);
  if (!parsed->user.empty() || !parsed->password.empty()) return v.add_error("the URL must have no user");
  while (url.ends_with('/')) url.pop_back();
  // It goes into cookies and into redirects as it stands.
  if (url.find_first_of(";%,\"\\ ") != std::string::npos)
    return v.add_error("the URL must be an address and a plain path: https://example.com/rung");
  return true;
}

bool set_peers(Value& v) {
  if (v.node.invalid) return false;
  if (v.node.kind != Node::Kind::map)
    return v.add_error(std::string("expected names of groups and the URLs of their APIs: write ") +
                       kPeersForm);
  if (v.node.entries.size() > kMostPeers) return v.add_error("at most 100 are allowed");
  bool ok = true;
  for (const auto& [key, value] : v.node.entries) {
    Value name{v.draft, v.problems, key, v.path};
    Value one{v.draft, v.problems, value, v.path + "." + key.text};
    std::string peer, url;
    if (!name.name(peer, 64) || !page_url(one, url)) {
      ok = false;
    } else {
      http(v).peers.emplace_back(std::move(peer), std::move(url));
    }
  }
  return ok;
}

}  // namespace

// clang-format off
std::vector<Key> http_keys() {
  return {
    {{"http.listen", "host:port", "", false, false, "address of the HTTP API; default: no HTTP API"},
     [](Value& v) { return v.host_port(http(v).listen); }},
    {{"http.token_file", "file", "", false, false,
      "file with the token for the HTTP API; this, http.tokens_file or http.oidc is required unless http.listen is a loopback address. Each line is a valid token, so that one can be replaced"},
     [](Value& v) { return v.file(http(v).token_file); }},
    {{"http.read_token_file", "file", "", false, false, "file with read-only tokens, one a line"},
     [](Value& v) { return v.file(http(v).read_token_file); }},
    {{"http.tokens_file", "file", "", false, false,
      "YAML file with named tokens, their roles and the queues that they may act on; beside http.token_file or instead of it; see docs/http.md"},
     [](Value& v) { return v.file(http(v).tokens_file); }},
    {{"http.cert", "file", "", false, false, "HTTPS: server certificate chain (PEM); requires http.key"},
     [](Value& v) { return v.file(http(v).cert); }},
    {{"http.key", "file", "", false, false, "HTTPS: private key (PEM) of the certificate"},
     [](Value& v) { return v.file(http(v).key); }},
    {{"http.connections", "1 to 512", "64", false, false,
      "maximum number of HTTP connections; at the limit an idle connection is closed, or else a new one is refused"},
     [](Value& v) { return v.integer(http(v).connections, 1, 512); }},
    {{"http.connections_per_address", "0 to 512", "0", false, false,
      "maximum number of connections from one address, including loopback; 0: three quarters of http.connections"},
     [](Value& v) { return v.integer(http(v).connections_per_address, 0, 512); }},
    {{"http.max_body", "1 to 1024", "16", false, false, "maximum size of an HTTP request body, in MB"},
     [](Value& v) { return v.integer(http(v).max_body, 1, 1024); }},
    {{"http.timeout", "duration", "10s", false, false,
      "timeout for receiving an HTTP request, for processing it, and for sending the response; 100ms to 10m"},
     [](Value& v) { return v.duration(http(v).timeout, Ms{100}, std::chrono::minutes{10}); }},

    {{"http.console", "true or false", "", false, false,
      "whether GET / has the console, a page for browsers; default: true where http.listen is a loopback address, else false; see docs/console.md"},
     [](Value& v) { return v.optional(http(v).console, &Value::boolean); }},
    {{"http.url", "URL", "", false, false,
      "where browsers reach this API, if a proxy stands before it: https://rung.example, or https://example.com/rung; for signing in with http.oidc, and for cookies; default: as in their requests"},
     [](Value& v) { return page_url(v, http(v).url); }},
    {{"http.peers", "map of names to URLs", "", false, false,
      "the HTTP APIs of other groups, to which the console has links"},
     set_peers},
  };
}
// clang-format on

}  // namespace rung::confile
