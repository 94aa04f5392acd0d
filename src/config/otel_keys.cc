// The part of the key table about traces.
#include <algorithm>

#include "src/config/draft.h"
#include "src/core/base/url.h"

namespace rung::confile {
namespace {

constexpr std::size_t kLongestValue = 4096;

OtelOptions& otel(Value& v) { return v.draft.config.otel; }

bool set_endpoint(Value& v) {
  std::string text;
  if (!v.url(text, {"http", "https"})) return false;
  const auto url = parse_url(text);
  if (!url->user.empty() || !url->password.empty())
    return v.add_error("the URL has a user: put the credentials into otel.headers, as authorization");
  while (text.ends_with('/')) text.pop_back();
  if (text.ends_with("/v1/traces")) return v.add_error("remove /v1/traces from the end: Rung appends it");
  otel(v).endpoint = std::move(text);
  return true;
}

bool set_protocol(Value& v) {
  constexpr std::string_view kOnly = "http/json";
  if (!v.expect_scalar(kOnly)) return false;
  if (v.node.text == kOnly) return true;
  return v.add_error(v.shown() +
                     " is not supported: the only protocol is http/json. Collectors accept it on port "
                     "4318 (4317 is gRPC)");
}

// The characters of a header's name, by RFC 9110.
bool is_token(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool set_otel_headers(Value& v) {
  if (v.node.invalid) return false;
  if (v.node.kind != Node::Kind::map)
    return v.add_error("expected headers: write { authorization: \"Bearer ${TOKEN}\" }");
  bool ok = true;
  for (const auto& [key, value] : v.node.entries) {
    if (key.kind != Node::Kind::text || !is_token(key.text)) {
      ok = v.add_error_at(key.mark, "the name of a header has letters, digits and - _ .");
      continue;
    }
    Value one{v.draft, v.problems, value, v.path + "." + key.text, true};
    std::string text;
    if (!one.text(text)) {
      ok = false;
    } else if (text.size() > kLongestValue ||
               std::ranges::any_of(text, [](char c) { return c < ' ' || c > '~'; })) {
      ok = one.add_error("the value of a header is printable ASCII, at most 4096 bytes");
    } else {
      otel(v).headers.emplace_back(key.text, std::move(text));
    }
  }
  return ok;
}

bool set_sample(Value& v) {
  double share = 0;
  if (!v.number(share)) return false;
  if (share > 1) return v.add_error(v.shown() + " is too high: 1 means all tasks, 0.1 a tenth of them");
  otel(v).sample = share;
  return true;
}

}  // namespace

// clang-format off
std::vector<Key> otel_keys() {
  return {
    {{"otel.endpoint", "URL", "", false, false,
      "collector that receives traces by OTLP over HTTP, e.g. http://collector:4318; /v1/traces is appended; default: no traces"},
     set_endpoint},
    {{"otel.protocol", "http/json", "http/json", false, false, "protocol of the collector; no other is supported"},
     set_protocol},
    {{"otel.service", "name", "rung", false, false,
      "service.name of the traces; a part of their ids, so all instances need the same"},
     [](Value& v) { return v.name(otel(v).service, 64); }},
    {{"otel.headers", "map of names to texts", "", false, true,
      "headers sent with each request to the collector, e.g. authorization"},
     set_otel_headers},
    {{"otel.ca", "file", "", false, false,
      "with https://: CA certificates (PEM) that the collector's certificate is verified against; default: those of the system"},
     [](Value& v) { return v.file(otel(v).ca); }},
    {{"otel.verify", "true or false", "true", false, false,
      "with https://: false accepts any certificate of the collector"},
     [](Value& v) { return v.boolean(otel(v).verify); }},
    {{"otel.sample", "number from 0 to 1", "1", false, false,
      "share of the tasks that are traced; decided by the retry-id, so each task with all its attempts or not at all"},
     set_sample},
  };
}
// clang-format on

}  // namespace rung::confile
