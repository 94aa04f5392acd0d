// A text that a test compares with a file beside it. With RUNG_REWRITE=FOLDER the file is written anew
// instead, into that folder. Thread: one at a time.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace rung::test {

inline std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void expect_snapshot(const std::string& path, const std::string& text) {
  if (const char* folder = std::getenv("RUNG_REWRITE"); folder != nullptr) {
    std::ofstream(folder / std::filesystem::path(path).filename()) << text;
  } else {
    EXPECT_EQ(text, text_of_file(path))
        << "if it is right: RUNG_REWRITE=" << std::filesystem::path(path).parent_path();
  }
}

inline void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

}  // namespace rung::test
