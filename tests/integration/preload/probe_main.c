// SPDX-License-Identifier: BSD-2-Clause
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "probe.h"

static int failures;
const char* own_program;

void report(bool ok, const char* file, int line, const char* what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "%s:%d: failed: %s (errno %d)\n", file, line, what, errno);
}

bool reads_node_type(int fd) {
  char text[16] = {0};
  if (fd < 0) return false;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  return n == 6 && strcmp(text, "1: CA\n") == 0;
}

bool looks_like_node(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(231, 384);
}

int main(int argc, char** argv) {
  own_program = argv[0];
  if (argc == 3 && strcmp(argv[1], "--inherited") == 0) {
    probe_inherited(atoi(argv[2]));
  } else if (argc == 2 && strcmp(argv[1], "--channel") == 0) {
    probe_channel();
  } else {
    probe_paths();
    probe_stat();
    probe_node();
    probe_threads();
  }
  return failures == 0 ? 0 : 1;
}
