// Which tasks: the filter options, alike in every command that takes them.
// Thread: main's.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "src/store/queries.h"

namespace rung::cli {

struct FilterOptions {
  std::string kind, due_before, due_after, created_since, created_before;
  std::vector<std::string> states, headers;  // headers: NAME=VALUE
  Filter filter;                             // what needs no reading
};
void add_filter(CLI::App& command, FilterOptions& options);

// Whether any of them was given.
bool is_set(const FilterOptions& options);

// Reads times and words into `filter`; tells what is wrong and returns the exit code.
int read_filter(const FilterOptions& options, EpochMs now, Filter& filter);

// "--queue orders --due-before 2026-11-21T17:05:00.000Z": the filter as it was read, for people and for the
// row of a bulk.
std::string to_flags(const Filter& filter);

}  // namespace rung::cli
