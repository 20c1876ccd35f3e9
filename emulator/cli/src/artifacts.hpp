// SPDX-License-Identifier: BSD-2-Clause
// What `verbena run --artifacts DIR` keeps of a run, to be looked at later. The files are made
// however the programs end. Of a run that fails before its programs start there are run.json and
// explain.log.
//
//   run.json         the command, its exit code, the seed, the versions, how to repeat it
//   status.json      verbena status --json after the programs' end
//   status-at-timeout.json
//                    the status when the time was up (--timeout), before the programs were ended
//   events.jsonl     verbena events --json of what has happened during the run
//   explain.log      the explanations of refused calls and error completions
//   capture.pcapng   the packets, up to kLongestCapture; with --capture they are in its file
//   instead
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run_capture.hpp"
#include "run_options.hpp"
#include "run_part.hpp"
#include "verbena/base/types.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {

class Artifacts final : public RunPart {
 public:
  static constexpr std::uint64_t kLongestCapture = 16u << 20;

  // Makes the directory, locks it, and removes what an earlier run has left of these files. Fails
  // (EBUSY) if a run that has not ended has locked it.
  static control::Outcome<std::unique_ptr<Artifacts>> make(const RunOptions& options);

  // Returns the file for explanations, which gets each line as it comes.
  std::FILE* explanations() const { return explanations_.get(); }
  control::Outcome<control::Done> begin(RunScene& scene) override;
  void time_is_up(RunScene& scene) override;
  int end(RunScene& scene, int exit_code) override;
  // Completes the explanations and writes run.json. Must be called last, also if the run has failed
  // before begin(), so that the files always tell of this run and of its exit code.
  void conclude(const RunNotes& notes, int exit_code);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  explicit Artifacts(const RunOptions& options);
  void write_output(RunScene& scene, const char* name, std::vector<std::string> words) const;
  void write_run(const RunNotes& notes, int exit_code) const;

  const RunOptions& options_;
  control::UniqueFd lock_;  // the directory; the kernel releases it when this process ends
  std::unique_ptr<std::FILE, Close> explanations_;
  std::optional<RunCapture> capture_;  // none if --capture is given
  TimeNs begun_;
  std::uint64_t last_before_ = 0;  // the emulator's last event before the run
};

}  // namespace verbena::cli
