// Files with passwords and tokens.
#include "src/core/base/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rung {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SecretFile : public ::testing::Test {
 protected:
  ~SecretFile() override { std::filesystem::remove(path_); }
  const std::string& with(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  const std::string path_ =
      std::filesystem::temp_directory_path() / ("rung-secret-" + std::to_string(getpid()));
};

TEST_F(SecretFile, APasswordIsTheFirstLine) {
  for (const char* text : {"secret", "secret\n", "secret\r\n", "secret\n\nanything\n"})
    EXPECT_EQ(read_password_file(with(text)).value(), "secret") << text;
  EXPECT_THAT(read_password_file(with("")).error().message, HasSubstr("is empty"));
  EXPECT_THAT(read_password_file(with("\nsecret")).error().message, HasSubstr("is empty"));
  EXPECT_THAT(read_password_file(with(std::string("a\0b", 3))).error().message, HasSubstr("NUL"));
  EXPECT_THAT(read_password_file(with(std::string(5000, 'x'))).error().message,
              HasSubstr("longer than 4096"));
  EXPECT_EQ(read_password_file(with(std::string(4096, 'x') + "\n")).value().size(), 4096U);
  EXPECT_THAT(read_password_file(with("\xEF\xBB\xBFsecret")).error().message, HasSubstr("byte order mark"));
  EXPECT_THAT(read_password_file("/nowhere").error().message, HasSubstr("No such file"));
}

TEST_F(SecretFile, EachLineIsATokenUpToALimit) {
  EXPECT_THAT(read_secret_lines(with("old\nnew\n\n"), "token", 3).value(), ElementsAre("old", "new"));
  EXPECT_THAT(read_secret_lines(with("a\r\nb\r\n"), "token", 3).value(), ElementsAre("a", "b"));
  EXPECT_THAT(read_secret_lines(with("a\n\nb\n"), "token", 3).error().message,
              HasSubstr("line 2 of the file is empty: it must be the token"));
  EXPECT_THAT(read_secret_lines(with("a\nb\nc\nd\n"), "token", 3).error().message,
              HasSubstr("more than 3 lines"));
  EXPECT_THAT(read_secret_lines(with("\xEF\xBB\xBFold\n"), "token", 3).error().message,
              HasSubstr("byte order mark"));
  EXPECT_THAT(read_secret_lines(with("\n"), "token", 3).error().message, HasSubstr("is empty"));
}

}  // namespace
}  // namespace rung
