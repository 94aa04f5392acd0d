#include "src/http/handlers/console.h"

#include <algorithm>

#include "src/core/message/digest.h"
#include "src/http/request/problem.h"

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

Response file_response(const ConsoleFile& file, const std::string& etag, const Call& call) {
  Response response;
  response.type = file.type;
  response.headers = {{"Content-Security-Policy", std::string(kPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "same-origin"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"},
                      {"ETag", etag}};
  if (call.request.if_none_match == etag) {
    response.status = 304;
  } else {
    response.body = file.text;
    if (file.path == "/") lead_up(response.body, call.request.path);
  }
  return response;
}

Route route_to(std::string_view path, const ConsoleFile& file) {
  std::string etag = "\"" + to_hex(sha256(file.text), 8) + "\"";
  return {"GET", path, Action::probe,
          [&file, etag = std::move(etag)](const Call& call) { return file_response(file, etag, call); }};
}

}  // namespace

std::vector<Route> console_routes() {
  const auto& files = console_files();
  if (files.empty()) {
    return {{"GET", "/", Action::probe, [](const Call& call) {
               return problem(404,
                              "this program was built without the console: npm was missing. The API is "
                              "described in /openapi.json",
                              call.request.path);
             }}};
  }
  std::vector<Route> routes;
  for (const ConsoleFile& file : files) {
    routes.push_back(route_to(file.path, file));
    if (file.path == "/") routes.push_back(route_to("/console/*", file));
  }
  return routes;
}

}  // namespace rung::http
