// The config's files, above all those with secrets, passwords and tokens: they are read anew whenever the
// secret is needed, because people replace them while the program runs (docs/security.md). The only file
// access in this room. Thread: any; blocks for as long as the file system does, so not on the loop.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/core/base/result.h"

namespace rung {

// The first `most` bytes: the file may be /dev/zero. Error (refused): why it cannot be read.
Result<std::string> read_start(const std::string& path, std::size_t most);

// Lines without line ends, up to the last one that is not empty; at most `most` of them. `what`: what one is,
// for errors. Errors (refused; they name no content): the file cannot be read, a line is too long for a
// secret, empty or with a NUL byte, or there are too many.
Result<std::vector<std::string>> read_secret_lines(const std::string& path, const std::string& what,
                                                   std::size_t most);

// The first line: a password file may go on with anything.
Result<std::string> read_password_file(const std::string& path);

}  // namespace rung
