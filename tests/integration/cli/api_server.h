// The HTTP API of an instance, in this process, over a test's own schema: the program's answers over HTTP are
// those of `rung run`, but nothing is sent, no shard is taken, and no node is registered. What a sidecar's
// flow does for the API is done by the store itself, as a command does it.
// Thread: one at a time; it has threads of its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "src/http/access/access.h"

namespace rung::cli {

// Carries out bulks, as a sidecar does: each step that is due.
class BulkThread {
 public:
  // `config_path`: a config with broker and store.
  explicit BulkThread(const std::string& config_path);
  ~BulkThread();
  BulkThread(const BulkThread&) = delete;
  BulkThread& operator=(const BulkThread&) = delete;

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// It carries out bulks, too.
class ApiServer {
 public:
  // `config_path`: a config with broker and store. With http.cert and http.key it answers by TLS.
  ApiServer(std::string config_path, const http::Tokens& tokens);
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  std::string url() const;
  // Reads the config anew, as a sidecar that is restarted.
  void reload();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// With its name and role, for every queue.
PersonToken person(const std::string& name, Role role, const std::string& token);

}  // namespace rung::cli
