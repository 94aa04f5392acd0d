// The console: GET / and all its paths.

#include <algorithm>
#include <map>

#include "src/core/message/identity.h"
#include "src/http/handlers/network.h"

namespace rung::http {
namespace {

// Only our own files, no inline script, no frame around it, nothing from another host.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

// The page names its files from where it is: only the browser knows the path below which a proxy has them.
void lead_up(std::string& page, std::string_view path) {
  for (auto depth = std::ranges::count(path, '/'); depth > 1; --depth)
    for (std::size_t at = 0; (at = page.find("\"./", at)) != std::string::npos; at += 6)
      page.insert(at + 3, "../");
}

struct Served {
  const ConsoleFile* file;
  std::string etag;
};

// By the path of the request: what no file has is a page of the console.
const Served& served(std::string_view path) {
  static const std::map<std::string_view, Served> all = [] {
    std::map<std::string_view, Served> out;
    for (const ConsoleFile& file : console_files())
      out[file.path] = {&file, "\"" + to_hex(sha256(file.text), 8) + "\""};
    return out;
  }();
  const auto found = all.find(path);
  return found != all.end() ? found->second : all.at("/");
}

Response show_file(Context&, const Call& call) {
  const auto& [file, etag] = served(call.request.path);
  Response response;
  response.type = file->type;
  response.headers = {{"Content-Security-Policy", std::string(kPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "same-origin"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"},
                      {"ETag", etag}};
  if (call.request.if_none_match == etag) {
    response.status = 304;
  } else {
    response.body = file->text;
    if (file->path == "/") lead_up(response.body, call.request.path);
  }
  return response;
}

Response say_why_there_is_none(Context&, const Call& call) {
  return call.problem(
      404,
      "this program was built without the console: npm was missing. The API is described in /openapi.json");
}

}  // namespace

std::vector<Route> console_routes() {
  const auto& files = console_files();
  if (files.empty()) return {{"GET", "/", "", api::Action::probe, api::Scope::none, say_why_there_is_none}};
  std::vector<Route> routes{{"GET", "/console/*", "", api::Action::probe, api::Scope::none, show_file}};
  for (const ConsoleFile& file : files)
    routes.push_back({"GET", file.path, "", api::Action::probe, api::Scope::none, show_file});
  return routes;
}

}  // namespace rung::http
