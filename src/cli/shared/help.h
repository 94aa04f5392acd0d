// Completion; better messages for mistakes on the command line. Thread: main's.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rung::cli {

void add_completion(CLI::App& app, int* exit);
// What the scripts of rung completion ask: `rung __complete WORD...`. Prints what the last word can be.
// REQUIRES: all commands have been added.
int complete(CLI::App& app, const std::vector<std::string>& words);

// The message for a command line that `app` could not parse: it names the nearest command, option or value.
// `what`: the parser's own message.
std::string explain_mistake(const CLI::App& app, const std::string& what);

}  // namespace rung::cli
