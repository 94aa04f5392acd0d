// Better messages for mistakes on the command line: each names the nearest command, option or value.
// Thread: pure functions.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rung::cli {

// The message for a command line that `app` could not parse. `what`: the parser's own message.
std::string explain_mistake(const CLI::App& app, const std::string& what);

// "--state: parkd not in {scheduled,parked}" -> the same and ": did you mean parked?"; other messages
// unchanged.
std::string suggest_value(const std::string& what);

}  // namespace rung::cli
