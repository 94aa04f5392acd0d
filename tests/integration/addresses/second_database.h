// A database server beside the one that all tests share: it can be made read-only. Started when it is first
// needed, ended with this process. Thread: one at a time.
#pragma once

#include <string>

namespace rung::test {

class SecondDatabase {
 public:
  SecondDatabase();   // takes writes
  ~SecondDatabase();  // so again
  void read_only(bool yes);
  int port() const { return port_; }
  std::string broker() const { return broker_; }  // the URL of the broker that comes with it
  std::string sql(const std::string& statement);  // what it prints; throws where it fails

 private:
  int port_ = 0;
  std::string broker_;
};

// A user of no special rights, who is bound by read_only: made on both servers, while both take writes. The
// URL of `schema` for it.
std::string plain_user(SecondDatabase& second, const std::string& schema, int port);

}  // namespace rung::test
