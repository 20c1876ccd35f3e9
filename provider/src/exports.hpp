// The objects of a context that another handle of it may import (ibv_import_pd, _mr, _dm), by
// the number that the application passes along. Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace verbena::provider {

struct Pd;
struct Mr;
struct Dm;

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
  // Calls `use` with the object, which stays until `use` returns; null when there is none.
  template <typename F>
  auto with(std::uint32_t number, F&& use) {
    const std::lock_guard guard(lock_);
    const auto found = objects_.find(number);
    return use(found != objects_.end() ? found->second : nullptr);
  }

 private:
  std::mutex lock_;
  std::unordered_map<std::uint32_t, Object*> objects_;
};

struct Exports {
  ExportTable<Pd> domains;
  ExportTable<Mr> regions;
  ExportTable<Dm> device_memory;
};

}  // namespace verbena::provider
