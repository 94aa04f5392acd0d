// The console: static files that the browser loads, and that talk to the same API as everybody. Without
// secrets: nobody has to sign in for them. Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/http/handlers/router.h"

namespace rung::http {

struct ConsoleFile {
  std::string_view path;  // "/app.js"
  std::string_view type;
  std::string text;
};
// Made by the build from src/console (cmake/console.cmake); empty if it could not be built.
const std::vector<ConsoleFile>& console_files();

std::string openapi_json();  // openapi.json, embedded by the build; openapi.cc makes the document of it

// GET / and all paths of the console. Without its files they say why there is none.
std::vector<Route> console_routes();

}  // namespace rung::http
