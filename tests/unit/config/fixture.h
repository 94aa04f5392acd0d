// A config in its own folder, like a user's.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/config/config.h"

namespace rung {

// Required by every config; two lines, so a test's own text begins in line 3.
inline const std::string kServers =
    "broker: { url: \"amqp://guest:guest@127.0.0.1:5672/%2f\" }\n"
    "store: { url: \"mysql://rung:secret@127.0.0.1:3306/rung\" }\n";

class ConfigTest : public testing::Test {
 protected:
  using Ladders = std::map<std::string, levels::Ladder, std::less<>>;
  using Queues = std::map<std::string, QueueRules, std::less<>>;

  ConfigTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rung-config-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ConfigTest() override {
    std::filesystem::remove_all(folder_);
    for (const auto& name : variables_) unsetenv(name.c_str());
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    std::filesystem::permissions(path(name), std::filesystem::perms{0600});  // as a file with a secret has
    return path(name);
  }

  void env(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  LoadedConfig load(const std::string& text) const { return load_config(write("rung.yaml", text)); }

  // The problems, one per line, without the folder: "rung.yaml:3:8: ...".
  std::vector<std::string> problems(const std::string& text) const {
    std::vector<std::string> lines;
    for (const auto& problem : load(text).problems) {
      std::string line = problem.str();
      while (line.find(folder_ + "/") != std::string::npos)
        line.erase(line.find(folder_), folder_.size() + 1);
      lines.push_back(std::move(line));
    }
    return lines;
  }

  // The only problem of a config that consists of kServers and this text.
  std::string problem(const std::string& text) const {
    const auto lines = problems(kServers + text);
    EXPECT_EQ(lines.size(), 1u) << testing::PrintToString(lines);
    return lines.empty() ? "" : lines.front();
  }

  // "LINE: what".
  std::vector<std::string> warnings(const std::string& text) const {
    std::vector<std::string> all;
    for (const auto& warning : load(text).warnings)
      all.push_back(std::to_string(warning.line) + ": " + warning.what);
    return all;
  }

  Config good(const std::string& text) const {
    auto loaded = load(text);
    for (const auto& problem : loaded.problems) ADD_FAILURE() << problem.str();
    // A test that failed here continues without a crash.
    if (loaded.config.rules == nullptr)
      loaded.config.rules = std::make_shared<const RuleBook>(
          Ladders{{"default", levels::Ladder::from_list({Ms{1000}}).value()}}, Queues{});
    return std::move(loaded.config);
  }

 private:
  std::string folder_;
  std::vector<std::string> variables_;
};

}  // namespace rung
