// The part of the key table about the API of an instance, which a config has instead of everything else; and
// what such a config may have.
#include "src/config/draft.h"
#include "src/core/base/url.h"

namespace rung::confile {
namespace {

bool set_api_url(Value& v) {
  std::string text;
  if (!v.url(text, {"http", "https"})) return false;
  const auto url = parse_url(text);
  if (!url->user.empty() || !url->password.empty())
    return v.add_error("the URL has a user: the API takes a token, in the file api.token_file");
  v.draft.config.api.url = std::move(text);
  return true;
}

}  // namespace

// clang-format off
std::vector<Key> api_keys() {
  return {
    {{"api.url", "URL", "", false, false,
      "use this instance's HTTP API instead of the database, e.g. https://rung.example:8025; excludes all other sections"},
     set_api_url},
    {{"api.token_file", "file", "", false, false, "file whose first line is the token for the API"},
     [](Value& v) { return v.file(v.draft.config.api.token_file); }},
    {{"api.ca", "file", "", false, false,
      "with https://: CA certificates (PEM) that the API's certificate is verified against; default: those of the system"},
     [](Value& v) { return v.file(v.draft.config.api.ca); }},
  };
}
// clang-format on

bool is_api_config(const Draft& draft) {
  const auto first = draft.present.lower_bound("api");
  return first != draft.present.end() && (first->first == "api" || first->first.starts_with("api."));
}

void complete_api(Draft& draft, Problems& problems) {
  for (const auto& [path, place] : draft.present) {
    if (path == "api" || path.starts_with("api.") || path.find('.') != std::string::npos) continue;
    problems.add(place.mark, path + ": a config with api has nothing else: remove it, or remove api");
  }
  if (!draft.present.contains("api.url"))
    return problems.add(draft.mark("api"),
                        "api.url is missing: write api: { url: \"https://host:8025\", token_file: FILE }");
  if (!draft.has_valid("api.url")) return;
  const auto parsed = parse_url(draft.config.api.url);
  if (parsed->scheme == "http" && draft.present.contains("api.ca"))
    problems.add(draft.mark("api.ca"), "api.ca: only with https://");
  const bool in_clear = parsed->scheme == "http" && !is_loopback(parsed->host);
  if (in_clear && draft.present.contains("api.token_file"))
    problems.add(
        draft.mark("api.url"),
        "api.url: http:// would send the token in plain text: use https:// (http:// only for this machine)");
  else if (in_clear && draft.reports_warnings())
    problems.warn(draft.mark("api.url"), "api.url: http:// sends everything in plain text: use https://");
  if (draft.present.contains("api.token_file") && draft.reports_warnings())
    warn_if_readable(problems, draft.mark("api.token_file"), draft.config.api.token_file,
                     "api.token_file is secret");
  if (draft.purpose != ConfigFor::check && draft.purpose != ConfigFor::api &&
      draft.purpose != ConfigFor::reading)
    problems.add(draft.mark("api"), std::string(kOnlyApi));
}

}  // namespace rung::confile
