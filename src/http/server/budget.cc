#include "src/http/server/budget.h"

namespace rung::http {

Budget::Share::~Share() {
  if (bytes_ == 0) return;
  const std::lock_guard lock(budget_->mutex_);
  budget_->held_ -= bytes_;
  budget_->given_back_.notify_all();
}

bool Budget::Share::grow(std::int64_t bytes, Ms most_wait) {
  std::unique_lock lock(budget_->mutex_);
  const auto room = [&] { return budget_->held_ == bytes_ || budget_->held_ + bytes <= budget_->most_; };
  if (!budget_->given_back_.wait_for(lock, most_wait, room)) return false;
  budget_->held_ += bytes;
  bytes_ += bytes;
  return true;
}

void Budget::Share::add(std::int64_t bytes) {
  const std::lock_guard lock(budget_->mutex_);
  budget_->held_ += bytes;
  bytes_ += bytes;
}

}  // namespace rung::http
