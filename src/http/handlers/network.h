// What only requests of the network ask for: /metrics, events, sign-ins, the console's files. Thread: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/api/base/context.h"
#include "src/http/access/access.h"
#include "src/http/handlers/live.h"
#include "src/http/metrics/metrics.h"
#include "src/oidc/code_flow.h"

namespace rung::http {

using api::Call;
using api::Context;
using api::Route;

struct ConsoleOptions {
  bool enabled = false;   // GET / has the console
  bool tls = false;       // the cookie is for HTTPS alone
  api::Pairs peers = {};  // name and URL of the APIs of other groups
  std::string url = {};   // where browsers reach this API; "" = by the Host of their request
};

// Runs work on its own thread, one piece at a time: a caller waits for a limited time, not until the work is
// done.
class BackgroundTask {
 public:
  ~BackgroundTask();
  // Starts `work` unless the previous work is still running; true if none is running after `most`.
  bool run(std::function<void()> work, Ms most);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool runs_ = false;   // guarded by mutex_
  std::thread thread_;  // guarded by mutex_
};

struct Network {
  Access& access;
  SignIns& sign_ins;
  const ConsoleOptions& console;
  oidc::CodeFlow* login;             // at the identity provider; nullptr = none
  std::function<int()> connections;  // number of open ones
  LiveFeed live;
  Metrics metrics;
  std::atomic<bool> counts_failed{false};  // the database did not answer the query for /metrics
  BackgroundTask counting = {};            // last: it ends before the members that it uses
};

// The routes of the OpenAPI document: those of the network, and api::api_routes().
std::vector<Route> all_routes();
const std::string& openapi_document();
// Pages for browsers alone, which the document does not have: to the identity provider, and back.
std::vector<Route> login_routes();
// GET / and all paths of the console: static files that the browser loads, and that talk to the same API as
// everybody. Without secrets: nobody has to sign in for them. Without the files they say why there is none.
std::vector<Route> console_routes();

struct ConsoleFile {
  std::string_view path;  // "/app.js"
  std::string_view type;
  std::string text;
};
// Made by the build from src/console (cmake/console.cmake); empty if it could not be built.
const std::vector<ConsoleFile>& console_files();

// The handlers. REQUIRES: context.network.
Response show_session(Context& context, const Call& call);
Response sign_in(Context& context, const Call& call);
Response sign_out(Context& context, const Call& call);
Response show_events(Context& context, const Call& call);
Response show_metrics(Context& context, const Call& call);

}  // namespace rung::http
