// A few connections to the database for what people ask; the flow's are left alone.
// Thread: any. A call waits for a free connection and for the database, both within bounds.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/store/store.h"

namespace rung::http {

class Reads {
 public:
  Reads(StoreFactory factory, int most, Ms patience)
      : factory_(std::move(factory)), most_(most), patience_(patience) {}

  // `work(Store&) -> Result<T>`. A connection that broke while nobody used it is made anew, once.
  template <typename Work>
  auto run(const Work& work) -> decltype(work(std::declval<Store&>())) {
    auto store = take();
    if (!store) return tl::unexpected(store.error());
    const bool used_before = *store != nullptr;
    if (!used_before) {
      auto made = factory_();
      if (!made) return give_up(made.error());
      *store = *std::move(made);
    }
    auto result = work(**store);
    if (!result && result.error().is_transient()) {
      store->reset();
      if (used_before) {
        auto made = factory_();
        if (!made) return give_up(made.error());
        *store = *std::move(made);
        result = work(**store);
        if (!result && result.error().is_transient()) store->reset();
      }
    }
    give_back(*std::move(store));
    return result;
  }

 private:
  // nullptr: one may be made.
  Result<std::unique_ptr<Store>> take();
  void give_back(std::unique_ptr<Store> store);
  tl::unexpected<Error> give_up(const Error& error) {
    give_back(nullptr);
    return tl::unexpected<Error>(error);
  }

  const StoreFactory factory_;
  const int most_;
  const Ms patience_;
  std::mutex mutex_;
  std::condition_variable free_;
  int out_ = 0;                               // guarded by mutex_
  std::vector<std::unique_ptr<Store>> idle_;  // guarded by mutex_
};

}  // namespace rung::http
