// A second database server, besides the one that all tests share; it can be made read-only. Starts on first
// use, and ends with this process. Thread: one at a time.
#pragma once

#include <string>

namespace rung::test {

class SecondDatabase {
 public:
  SecondDatabase();   // makes it accept writes
  ~SecondDatabase();  // the same
  void read_only(bool yes);
  int port() const { return port_; }
  std::string broker() const { return broker_; }  // the URL of the broker that comes with it
  std::string sql(const std::string& statement);  // returns its output; throws if it fails

 private:
  int port_ = 0;
  std::string broker_;
};

// Creates a user without special rights, to whom read_only applies, on both servers, while both accept
// writes. Returns the URL of `schema` for that user.
std::string plain_user(SecondDatabase& second, const std::string& schema, int port);

}  // namespace rung::test
