// SPDX-License-Identifier: BSD-2-Clause
// Makes sure that only one emulator runs in a runtime directory. Two locks decide:
//
//   start.lock    held while an emulator starts or ends. A newcomer waits for it, and so finds
//                 either a socket that listens or a directory that is free.
//   daemon.lock   held by the emulator for life. A starter that cannot have it has lost a race.
//
// The kernel releases both locks with the process, so a dead emulator leaves only files. Its socket
// is replaced.
#pragma once

#include <string>

#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::daemon {

class Instance {
 public:
  // Fails with EALREADY if another emulator runs here and listens.
  static control::Outcome<Instance> claim(const std::string& dir);

  // Returns the listening socket, mode 0600, in place of a stale one. This ends the start.
  control::Outcome<control::UniqueFd> listen();
  // Must be called after the directory or the socket was removed. Claims what is there now, unless
  // the lock file is still ours. listen() must follow.
  control::Outcome<control::Done> restore();
  // Returns false once the directory was removed: what is at its path now, if anything, belongs to
  // another emulator.
  bool has_directory() const;
  // Removes the socket. From here on newcomers wait for the end.
  void begin_end();
  // Makes release() remove our files and, if nothing else is in it, the directory.
  void remove_files_at_end() { removes_files_ = true; }
  // Lets the next emulator start. This is the last step before the process ends.
  void release();

  const std::string& dir() const { return dir_; }

 private:
  explicit Instance(std::string dir) : dir_(std::move(dir)) {}
  // ENOENT, ESTALE: the end of another emulator has removed the directory meanwhile.
  static control::Outcome<Instance> try_to_claim(const std::string& dir);

  std::string dir_;
  control::UniqueFd start_;
  control::UniqueFd life_;
  bool removes_files_ = false;
};

}  // namespace verbena::daemon
