#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/store/mysql/mysql_store.h"

namespace rung {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ServerVariables sound() {
  return {{"innodb_flush_log_at_trx_commit", "1"},
          {"log_bin", "ON"},
          {"sync_binlog", "1"},
          {"read_only", "OFF"},
          {"wsrep_on", "OFF"},
          {"max_allowed_packet", "67108864"}};
}

std::vector<std::string> names(ServerVariables variables, const ServerVariables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  std::vector<std::string> out;
  for (const ServerRisk& risk : server_risks(variables)) out.push_back(risk.name);
  return out;
}

TEST(ServerRisks, ASoundServerHasNone) {
  EXPECT_THAT(names(sound(), {}), IsEmpty());
  EXPECT_THAT(names(sound(), {{"log_bin", "OFF"}, {"sync_binlog", "0"}}), IsEmpty());
  EXPECT_THAT(names({}, {}), IsEmpty()) << "what is not known is no risk";
}

TEST(ServerRisks, WhatACrashLoses) {
  EXPECT_THAT(names(sound(), {{"innodb_flush_log_at_trx_commit", "2"}}), ElementsAre("database.flush"));
  EXPECT_THAT(names(sound(), {{"sync_binlog", "0"}}), ElementsAre("database.binlog"));
}

TEST(ServerRisks, Galera) {
  EXPECT_THAT(names(sound(), {{"wsrep_on", "ON"}}), ElementsAre("database.wsrep"));
  ServerVariables galera = sound();
  galera["wsrep_on"] = "ON";
  const ServerRisk risk = server_risks(galera).at(0);
  EXPECT_THAT(risk.what, HasSubstr("two writers are not supported"));
  EXPECT_THAT(risk.what, HasSubstr("older than what another has committed"));
  EXPECT_TRUE(risk.serves);
}

TEST(ServerRisks, GroupReplicationWithSeveralWriters) {
  const ServerVariables group{{"group_replication_single_primary_mode", "OFF"},
                              {"group_replication_group_name", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"}};
  EXPECT_THAT(names(sound(), group), ElementsAre("database.multi_primary"))
      << "our user may not see the members";
  ServerVariables variables = sound();
  variables.insert(group.begin(), group.end());
  EXPECT_THAT(names(variables, {{"group_members", "3"}}), ElementsAre("database.multi_primary"));
  EXPECT_THAT(names(variables, {{"group_members", "0"}}), IsEmpty()) << "it is not in use";
  EXPECT_THAT(names(variables, {{"group_replication_single_primary_mode", "ON"}}), IsEmpty());
  EXPECT_THAT(names(variables, {{"group_replication_group_name", ""}}), IsEmpty());
}

TEST(ServerRisks, AReplica) {
  for (const char* name : {"read_only", "super_read_only"}) {
    ServerVariables variables = sound();
    variables[name] = "ON";
    ASSERT_THAT(names(variables, {}), ElementsAre("database.read_only"));
    EXPECT_FALSE(server_risks(variables).at(0).serves);
  }
}

}  // namespace
}  // namespace rung
