// Messages for the tests of the sidecar: with every field type, and random ones from a seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "tests/support/messages.h"
#include "tests/support/sidecar.h"

namespace rung::test {

// What a shop would publish: content type, type, message-id, two headers.
Message order(std::string body = "{\"order\": 7}");

// Every property but user-id and expiration, and a header of every AMQP field type, nested too.
Message everything();

// Headers and properties as the seed has it, a body of `size` bytes, also not UTF-8.
Message random_message(std::mt19937_64& random, std::size_t size);

// What stands in RUNG_TEST_SEED, else a new one. Printed.
std::uint64_t seed();

// Headers without what the contract says is added, for comparing with what was before.
Table without_added(const Message& message);

// The message came back as it was: body, properties and headers to the byte; headers as said in the contract.
void expect_same(const Message& before, const Message& back);

// A row in one line, for what a failed test prints.
std::string described(const Row& row);

}  // namespace rung::test
