#include "src/store/system.h"

namespace rung {

std::vector<ServerRisk> server_risks(const ServerVariables& variables) {
  const auto value = [&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? std::string() : it->second;
  };
  std::vector<ServerRisk> risks;
  if (const std::string flush = value("innodb_flush_log_at_trx_commit"); !flush.empty() && flush != "1") {
    risks.push_back({"database.flush",
                     "innodb_flush_log_at_trx_commit is " + flush +
                         ": a crash of the machine loses up to a second of commits, and with them messages",
                     "SET GLOBAL innodb_flush_log_at_trx_commit = 1"});
  }
  if (value("log_bin") == "ON" && value("sync_binlog") != "1") {
    risks.push_back({"database.binlog",
                     "the binary log is on and sync_binlog is " + value("sync_binlog") +
                         ": a replica or a restored backup may lack the last commits",
                     "SET GLOBAL sync_binlog = 1"});
  }
  if (value("log_bin") == "ON" && value("binlog_format") == "STATEMENT") {
    risks.push_back(
        {"database.binlog_format",
         "the binary log has statements (binlog_format = STATEMENT), and the server refuses writes at "
         "READ COMMITTED then, unless Rung's user may set it for its sessions",
         "SET GLOBAL binlog_format = 'ROW', and set it in the server's config"});
  }
  if (const std::string format = value("innodb_default_row_format"); !format.empty() && format != "dynamic") {
    risks.push_back({"database.row_format",
                     "innodb_default_row_format is " + format +
                         ": Rung's own tables are DYNAMIC, but one that is rebuilt by hand may no longer be",
                     "SET GLOBAL innodb_default_row_format = dynamic"});
  }
  if (value("wsrep_on") == "ON") {
    risks.push_back(
        {"database.wsrep",
         "a Galera cluster (wsrep_on): one node may be written to at a time; two writers are not "
         "supported, because what one node reads can be older than what another has committed; and "
         "when nodes crash together, committed writes can be lost",
         "point store.url of all sidecars at the same node, or at a proxy with one writer "
         "(docs/performance.md)"});
  }
  if (value("group_replication_single_primary_mode") == "OFF" &&
      !value("group_replication_group_name").empty() && value("group_members") != "0") {
    risks.push_back(
        {"database.multi_primary",
         "Group Replication in multi-primary mode: one member may be written to at a time; several "
         "writers are not supported, because locks are of one member and what one reads can be older "
         "than what another has committed",
         "SELECT group_replication_switch_to_single_primary_mode(), and point store.url of all "
         "sidecars at the primary"});
  }
  const auto on = [&](const char* name) { return !value(name).empty() && value(name) != "OFF"; };
  if (on("super_read_only") || on("read_only")) {
    risks.push_back({"database.read_only", "the server is read-only: a replica",
                     "point store.url at the primary", false});
  }
  return risks;
}

}  // namespace rung
