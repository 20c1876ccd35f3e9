// SPDX-License-Identifier: BSD-2-Clause
// One emulator for each runtime directory. Two locks decide:
//
//   start.lock    held while an emulator starts or ends. Whoever comes meanwhile waits for it, and
//                 so finds either a socket that listens or a directory that is free.
//   daemon.lock   held by the emulator for life. Who cannot have it is the loser of a race.
//
// The kernel drops both with the process, so a dead emulator leaves nothing but files; its socket
// is replaced.
#pragma once

#include <string>

#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::daemon {

class Instance {
 public:
  // EALREADY: another emulator runs here and listens.
  static control::Outcome<Instance> claim(const std::string& dir);

  // The listening socket, mode 0600, in place of a stale one. Ends the start.
  control::Outcome<control::UniqueFd> listen();
  // After the directory or the socket was taken away: claims what is there now, if it is not ours
  // still. listen() follows.
  control::Outcome<control::Done> restore();
  // From here on newcomers wait for our end. Removes the socket.
  void begin_end();
  // From here on release() removes our files and, if nothing else is in it, the directory.
  void remove_files_at_end() { removes_files_ = true; }
  // Lets the next one start; the last thing before the process ends.
  void release();

  const std::string& dir() const { return dir_; }

 private:
  explicit Instance(std::string dir) : dir_(std::move(dir)) {}
  // ENOENT, ESTALE: another emulator's end has removed the directory meanwhile.
  static control::Outcome<Instance> try_to_claim(const std::string& dir);

  std::string dir_;
  control::UniqueFd start_;
  control::UniqueFd life_;
  bool removes_files_ = false;
};

}  // namespace verbena::daemon
