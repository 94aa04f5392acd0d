// Parses dialect files: the built-in ones, and the user's (`dialects` of the config). Thread: pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "src/config/document.h"
#include "src/core/rules/dialect.h"

namespace rung::confile {

// nullptr: not a valid dialect; the problems say why.
DialectPtr parse_dialect(std::string_view yaml, Problems& problems);

// Of the program, by name.
const Config::Dialects& ready_dialects();

}  // namespace rung::confile
