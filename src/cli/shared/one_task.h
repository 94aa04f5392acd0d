// The task that show, history and audit are about. Thread: as the session's store.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "src/cli/shared/command.h"
#include "src/store/queries.h"

namespace rung::cli {

struct TaskOptions {
  Common common;
  std::string id;  // a retry-id or a message-id
};

// Opens the store and finds the task; prints errors, and a note if the message-id has several tasks.
int open_task(const TaskOptions& options, Session& session, TaskRow& task);

// what_next(), after asking what silence means for it.
std::string next_of(Session& session, const TaskRow& row);

// The parts that are not empty: "a, b".
std::string joined(std::initializer_list<std::string> parts);
// "queue orders"; "" without a value.
std::string named(std::string_view name, const std::string& value);

}  // namespace rung::cli
