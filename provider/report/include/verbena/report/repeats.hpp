// SPDX-License-Identifier: BSD-2-Clause
// Remembers which explanations a process has given. Lines that differ only in their numbers are of
// one kind: a wrong Q_Key in a loop is one thing to say, not 20,000. Of each kind the first few
// different lines are printed, then the 10th, 100th, 1000th and so on, with the count. Lines that
// were left out after the last printed one are reported at the end. Not synchronised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::provider {

class Repeats {
 public:
  // The last one stands for all kinds that come when the others are taken.
  static constexpr std::size_t kKinds = 128;
  static constexpr std::size_t kDifferentOnes = 3;

  struct Verdict {
    bool says = true;
    std::uint64_t count = 1;  // lines of this kind, including this one
    bool is_mixed = false;    // the kind stands for several
  };
  Verdict note(std::string_view line) noexcept;

  // Calls f(the last line that was left out, how many were, whether they are of several kinds) for
  // each kind with lines left out.
  template <typename F>
  void for_each_left_out(F&& f) {
    for (std::size_t i = 0; i < used_; ++i) {
      Kind& kind = kinds_[i];
      if (kind.left_out != 0) {
        f(std::string_view(kind.line.data(), kind.length), kind.left_out, kind.is_mixed());
      }
      kind.left_out = 0;
    }
  }

  // Forgets all lines. Touches little memory, because a forked child does it at once.
  void forget() noexcept { used_ = 0; }

 private:
  struct Kind {
    bool is_mixed() const noexcept { return hash == 0; }

    std::uint64_t hash = 0;                            // 0 if it stands for several kinds
    std::array<std::uint64_t, kDifferentOnes> said{};  // hashes of whole lines
    std::uint64_t count = 0;
    std::uint64_t left_out = 0;  // since a line of this kind was printed
    std::size_t length = 0;
    std::array<char, 300> line{};  // the last line that was left out
  };

  Kind& kind_of(std::uint64_t hash) noexcept;

  std::array<Kind, kKinds> kinds_{};
  std::size_t used_ = 0;
};

}  // namespace verbena::provider
