// Reads the key of the delivery tokens from the database, and retries while the key is unusable: a person has
// to fix it. Thread: the loop's.
#pragma once

#include <functional>

#include "src/bridge/delivery_proof.h"
#include "src/bridge/store_jobs.h"
#include "src/io/loop.h"

namespace rung::bridge {

class TokenKeyReader {
 public:
  // `ready`: the proof has its key from now on.
  TokenKeyReader(io::Loop& loop, StoreJobs& jobs, DeliveryProof& proof, std::function<void()> ready);

  void read();
  void drain() { draining_ = true; }  // a read under way is the last

 private:
  void arrived(const Result<DeliveryProof::Shared>& shared);

  StoreJobs& jobs_;
  DeliveryProof& proof_;
  const std::function<void()> ready_;
  io::Timer timer_;
  bool draining_ = false;
};

}  // namespace rung::bridge
