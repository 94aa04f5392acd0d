// Messages for the tests of the sidecar.
#pragma once

#include <string>

#include "tests/support/messages.h"
#include "tests/support/sidecar.h"

namespace rung::test {

// A typical message of a shop: content type, type, message-id, two headers.
Message order(std::string body = "{\"order\": 7}");

// The headers without those that the contract says Rung adds, to compare with the original.
Table without_added(const Message& message);

// Checks that the message came back unchanged: body, properties and headers to the byte, apart from the
// headers that the contract says Rung adds.
void expect_same(const Message& before, const Message& back);

// A row as one line, for the output of a failed test.
std::string described(const Row& row);

}  // namespace rung::test
