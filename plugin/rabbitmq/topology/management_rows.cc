#include "plugin/rabbitmq/topology/management_rows.h"

namespace rung::rabbit {

QueueFacts queue_facts_of(const json& row) {
  QueueFacts facts{text_in(row, "arguments", "x-dead-letter-exchange"), text_at(row, "policy"),
                   text_at(row, "type"), text_at(row, "name")};
  facts.arguments = table_at(row, "arguments");
  if (const auto it = row.find("effective_policy_definition"); it != row.end() && it->is_object())
    facts.effective_policy = dump(*it);
  facts.operator_policy = text_at(row, "operator_policy");
  facts.exclusive = flag_at(row, "exclusive");
  facts.auto_delete = flag_at(row, "auto_delete");
  facts.durable = !row.contains("durable") || flag_at(row, "durable");
  if (std::string node = text_at(row, "node"); !node.empty()) facts.nodes.push_back(std::move(node));
  if (const auto it = row.find("members"); it != row.end() && it->is_array()) {  // of a quorum queue
    for (const json& member : *it) {
      if (member.is_string()) facts.nodes.push_back(member.get<std::string>());
    }
  }
  return facts;
}

Binding binding_of(const json& row) {
  return {text_at(row, "source"), text_at(row, "routing_key"), table_at(row, "arguments")};
}

Policy policy_of(const json& row) {
  return {text_at(row, "name"), text_at(row, "pattern"), text_at(row, "apply-to"),
          table_at(row, "definition"), static_cast<int>(number_at(row, "priority"))};
}

}  // namespace rung::rabbit
