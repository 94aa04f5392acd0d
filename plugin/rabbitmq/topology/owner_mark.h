// The mark that says which database a prefix belongs to: the exchange <prefix>.owner, whose alternate
// exchange is named <prefix>.database-ID. Nothing is published to it, and no such alternate exchange exists.
// Why so: it can be read without the management API (a declare with another argument is refused, and the
// refusal tells the argument that is there), it takes no rights that Rung does not have anyway, policies
// change neither an exchange's arguments nor its life, and it is a part of exported definitions. A queue
// could expire or be limited by a policy; an argument that RabbitMQ does not know is not compared. Thread:
// the caller's, on its connection.
#pragma once

#include <string>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/calls.h"
#include "src/core/base/broker_place.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

struct OwnerClaim {
  std::string database;  // our database's id
  bool mark = false;     // if there is no mark yet, set it
};

std::string owner_exchange(const std::string& prefix);

// A refusal closes the channel, which is opened again: not for a connection that consumes. Error: the
// connection has ended.
Result<PlaceReport> read_owner(const BrokerOptions& options, const OwnerClaim& claim, const Calls& calls);
// Removes the mark, whoever's it is.
Result<void> delete_owner(const BrokerOptions& options, const Calls& calls);

}  // namespace rung::rabbit
