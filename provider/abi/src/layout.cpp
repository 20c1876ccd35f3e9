// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/abi/layout.hpp"

#include <array>

namespace verbena::abi {
namespace {

constexpr std::array<Layout, kGenerations> kLayouts{{
    {k28, 25, 8, 67, "v28-v29"},
    {k30, 25, 9, 67, "v30"},
    {k31, 25, 10, 73, "v31"},
    {k32, 25, 11, 73, "v32"},
    {k33, 33, 11, 72, "v33"},
    {k34, 34, 12, 73, "v34"},
    {k35, 34, 13, 75, "v35"},
    {k36, 34, 14, 76, "v36-v56"},
    {k57, 57, 14, 76, "v57-v58"},
    {k59, 59, 15, 79, "v59-v61"},
    {k62, 59, 16, 81, "v62-v63"},
    {k64, 64, 17, 83, "v64"},
    {k65, 65, 18, 93, "v65"},
}};

}  // namespace

const Layout& layout(Generation generation) { return kLayouts[generation]; }

std::optional<Generation> recognise(unsigned pabi, unsigned minor) {
  for (const Layout& l : kLayouts) {
    if (l.pabi == pabi && l.minor == minor) return l.generation;
  }
  return std::nullopt;
}

}  // namespace verbena::abi
