// Describes a task for people and for scripts, and finds the one that a command is about. Thread: main's, for
// what prints or asks.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/json.h"
#include "src/cli/shared/command.h"
#include "src/store/queries.h"

namespace rung::cli {

// One line: what the task waits for, or how it ended: "scheduled: level 4 of 9, due 2026-... (in 9m12s)".
// `silence`: what silence means for it, if it awaits an answer; none: not known.
std::string what_next(const TaskRow& row, std::optional<Silence::Means> silence, EpochMs now);

// The task's target, for one column of a list: "orders", "shop > order.close", "-".
std::string destination(const Task& task);

// A short form of what_next, for one column: "in 4m12s", "3s late", "silence in 2m".
std::string due_cell(const Task& task, EpochMs now);

// The error that the message arrived with, from what strip() kept. "" = unknown.
std::string first_error(std::string_view origin_json);

// Never throws: invalid UTF-8 is replaced.
std::string dump(const Json& json, bool pretty = true);
int print_json(const Json& json);  // to stdout, and a line end; returns kSuccess

// A message's body for people and scripts: UTF-8 text with control characters escaped; otherwise every byte
// that is not printable ASCII as \xNN.
std::string printable_body(std::string_view body);

// The task that show, history and audit are about.
struct TaskOptions {
  Common common;
  std::string id;  // a retry-id or a message-id
};

// The tasks that these retry-ids and message-ids name, each once; prints errors. A message-id of several
// tasks is one. A retry-id that no task has stays.
int find_ids(Session& session, const std::vector<std::string>& words, std::vector<TaskId>& ids);

// Opens the store and finds the task, in any group of the config if none is chosen; prints errors, and a note
// if the message-id has several tasks.
int open_task(const TaskOptions& options, Session& session, TaskRow& task);

// "queue orders: breaker open until ...": what holds tasks back, and the command that ends it.
std::string held_text(const QueueGate& gate);
// what_next(), after asking what silence means for it, and what holds it back.
std::string next_of(Session& session, const TaskRow& row);

// The parts that are not empty: "a, b".
std::string joined(std::initializer_list<std::string> parts);
// "queue orders"; "" without a value.
std::string named(std::string_view name, const std::string& value);

}  // namespace rung::cli
