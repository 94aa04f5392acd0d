// The seed of a random test: from RUNG_TEST_SEED, else new; printed, so that a failure can be repeated.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace rung::test {

inline unsigned seed() {
  const char* given = std::getenv("RUNG_TEST_SEED");
  const unsigned s =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  std::cout << "RUNG_TEST_SEED=" << s << '\n';
  ::testing::Test::RecordProperty("seed", std::to_string(s));
  return s;
}

}  // namespace rung::test
