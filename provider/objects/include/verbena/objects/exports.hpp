// SPDX-License-Identifier: BSD-2-Clause
// The objects of a context that are found by a number: those that another handle of the context may
// import (ibv_import_pd, _mr, _dm), those that `verbena status` shows and those that `verbena
// event` names. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace verbena::provider {

struct Pd;
struct Mr;
struct Dm;
struct Cq;
struct Srq;

template <typename Object>
class ExportTable {
 public:
  void add(std::uint32_t number, Object* object) {
    const std::lock_guard guard(lock_);
    objects_[number] = object;
  }
  void remove(std::uint32_t number) {
    const std::lock_guard guard(lock_);
    objects_.erase(number);
  }
  // Calls `use` with the object, which stays until `use` returns, or with null if there is none.
  template <typename F>
  auto with(std::uint32_t number, F&& use) {
    const std::lock_guard guard(lock_);
    const auto found = objects_.find(number);
    return use(found != objects_.end() ? found->second : nullptr);
  }
  // Calls `use` with at most `most` objects whose numbers follow `after`, in order. Returns whether
  // there are more.
  template <typename F>
  bool for_each_behind(std::uint32_t after, std::size_t most, F&& use) {
    const std::lock_guard guard(lock_);
    std::vector<std::uint32_t> behind;
    for (const auto& [number, object] : objects_) {
      if (number > after) behind.push_back(number);
    }
    const std::size_t count = std::min(most, behind.size());
    std::ranges::partial_sort(behind, behind.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t i = 0; i < count; ++i) use(*objects_.at(behind[i]));
    return behind.size() > count;
  }

 private:
  std::mutex lock_;
  std::unordered_map<std::uint32_t, Object*> objects_;
};

struct Exports {
  ExportTable<Pd> domains;
  ExportTable<Mr> regions;
  ExportTable<Dm> device_memory;
  ExportTable<Cq> completion_queues;  // by ibv_cq.handle
  ExportTable<Srq> shared_receives;   // by ibv_srq.handle
};

}  // namespace verbena::provider
