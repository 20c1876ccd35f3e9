// SPDX-License-Identifier: BSD-2-Clause
// Normalises any path. Normalising it again changes nothing, and its parts together are the path.
#include <cstddef>
#include <cstdint>
#include <string>

#include "verbena/base/check.hpp"
#include "verbena/preload/paths.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbena::preload;
  const std::string path = normalise({reinterpret_cast<const char*>(data), size});
  VERBENA_CHECK(path == normalise(path));
  VERBENA_CHECK(path.front() == '/' && (path.size() == 1 || path.back() != '/'));
  const Place place = place_of(path);
  if (place.root == Root::kNone) return 0;
  std::string again(directory_of(place.root));
  if (!place.is_root()) again += "/" + std::string(place.name) + std::string(place.rest);
  VERBENA_CHECK(again == path);
  return 0;
}
