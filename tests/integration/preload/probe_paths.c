// SPDX-License-Identifier: BSD-2-Clause
/* Reaches files and directories by every call that takes a path. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe.h"

/* Functions that a fortified program calls. */
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);
char* __realpath_chk(const char*, char*, size_t);

static void probe_open(void) {
  CHECK_QUIET(reads_node_type(open(NODE_TYPE, O_RDONLY)));
  CHECK_QUIET(reads_node_type(open64(NODE_TYPE, O_RDONLY | O_CLOEXEC)));
  CHECK_QUIET(reads_node_type(openat(AT_FDCWD, NODE_TYPE, O_RDONLY)));
  CHECK_QUIET(reads_node_type(openat64(-1, NODE_TYPE, O_RDONLY)));
  CHECK_QUIET(reads_node_type(__open_2(NODE_TYPE, O_RDONLY)));
  CHECK_QUIET(reads_node_type(__open64_2(NODE_TYPE, O_RDONLY)));
  CHECK_QUIET(reads_node_type(__openat_2(AT_FDCWD, NODE_TYPE, O_RDONLY)));
  CHECK_QUIET(reads_node_type(__openat64_2(AT_FDCWD, NODE_TYPE, O_RDONLY)));
  CHECK(reads_node_type(open("/sys/class//net/../infiniband/./verbena0/node_type", O_RDONLY)));
  CHECK(open(NODE_TYPE, O_WRONLY) == -1 && errno == EACCES);
  CHECK(open(NODE_TYPE, O_RDONLY | O_TRUNC) == -1 && errno == EACCES);
  CHECK(open("/sys/class/infiniband/nobody0/node_type", O_RDONLY) == -1 && errno == ENOENT);
  CHECK(open(DEVICE "/no_such_file", O_RDONLY) == -1 && errno == ENOENT);
}

// What a program shall not make in sysfs, which refuses it to root, too.
static void probe_making(void) {
  CHECK(open(DEVICE "/made", O_RDONLY | O_CREAT, 0644) == -1 && errno == EACCES);
  CHECK(open(DEVICE "/made", O_WRONLY | O_CREAT, 0644) == -1 && errno == EACCES);
  CHECK(openat64(-1, DEVICE "/ports/1/made", O_RDWR | O_CREAT | O_EXCL, 0644) == -1 &&
        errno == EACCES);
  CHECK(access(DEVICE "/made", F_OK) == -1 && errno == ENOENT);
  CHECK(open(DEVICE "/no_such_folder/made", O_WRONLY | O_CREAT, 0644) == -1 && errno == ENOENT);
  CHECK(open(DEVICE "/made", O_WRONLY) == -1 && errno == ENOENT);
  CHECK(open(DEVICE "/ports", O_RDONLY | O_CREAT, 0644) == -1 && errno == EISDIR);
  CHECK(open(NODE_TYPE, O_RDONLY | O_CREAT | O_EXCL, 0644) == -1 && errno == EEXIST);
  CHECK_QUIET(reads_node_type(open(NODE_TYPE, O_RDONLY | O_CREAT, 0644)));
  CHECK(fopen(DEVICE "/made", "w") == NULL && errno == EACCES);
  CHECK(fopen(DEVICE "/made", "r+") == NULL && errno == ENOENT);
  CHECK(fopen(DEVICE "/no_such_folder/made", "a") == NULL && errno == ENOENT);
}

static bool stream_reads_node_type(FILE* stream) {
  char text[16] = {0};
  if (stream == NULL) return false;
  const bool ok = fgets(text, sizeof text, stream) != NULL && strcmp(text, "1: CA\n") == 0;
  fclose(stream);
  return ok;
}

static void probe_streams(void) {
  CHECK(stream_reads_node_type(fopen(NODE_TYPE, "r")));
  CHECK(stream_reads_node_type(fopen64(NODE_TYPE, "re")));
  CHECK(stream_reads_node_type(freopen(NODE_TYPE, "r", fopen("/dev/null", "r"))));
  CHECK(stream_reads_node_type(freopen64(NODE_TYPE, "r", fopen("/dev/null", "r"))));
  CHECK(fopen(NODE_TYPE, "r+") == NULL && errno == EACCES);
}

static int is_visible(const struct dirent* entry) { return entry->d_name[0] != '.'; }
static int is_visible64(const struct dirent64* entry) { return entry->d_name[0] != '.'; }

static void probe_listing(void) {
  int seen = 0;
  DIR* dir = opendir("/sys/class/infiniband/");
  CHECK(dir != NULL);
  for (struct dirent* e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
    seen += strcmp(e->d_name, "verbena0") == 0 || strcmp(e->d_name, "roce0") == 0;
  }
  CHECK(seen == 2);
  if (dir != NULL) {
    CHECK(reads_node_type(openat(dirfd(dir), "verbena0/node_type", O_RDONLY)));
    closedir(dir);
  }
  struct dirent** list = NULL;
  CHECK(scandir("/sys/class/infiniband_verbs", &list, is_visible, alphasort) == 3);
  CHECK(list != NULL && strcmp(list[0]->d_name, "abi_version") == 0);
  struct dirent64** list64 = NULL;
  CHECK(scandir64("/dev/infiniband", &list64, is_visible64, alphasort64) == 2);
  CHECK(scandirat(AT_FDCWD, DEVICE "/ports", &list, is_visible, alphasort) == 1);
  CHECK(scandirat64(AT_FDCWD, DEVICE "/ports", &list64, is_visible64, alphasort64) == 1);
}

static void probe_glob(void) {
  glob_t found;
  memset(&found, 0, sizeof found);
  CHECK(glob("/sys/class/infiniband/*/ports/*/state", 0, NULL, &found) == 0);
  CHECK(found.gl_pathc == 2);
  CHECK(found.gl_pathc == 2 &&
        strcmp(found.gl_pathv[1], "/sys/class/infiniband/verbena0/ports/1/state") == 0);
  globfree(&found);
  glob64_t found64;
  memset(&found64, 0, sizeof found64);
  CHECK(glob64("/dev/infiniband/uverbs19?", 0, NULL, &found64) == 0 && found64.gl_pathc == 2);
  globfree64(&found64);
  CHECK(glob("/etc/pass*d", 0, NULL, &found) == 0 && found.gl_pathc == 1);
  globfree(&found);
}

static void probe_names(void) {
  char text[PATH_MAX];
  CHECK(realpath(NODE_TYPE, text) == text);
  CHECK(reads_node_type(open(text, O_RDONLY)));
  CHECK(__realpath_chk(NODE_TYPE, text, sizeof text) == text);
  char* made = canonicalize_file_name(NODE_TYPE);
  CHECK(made != NULL && strcmp(made, text) == 0);
  free(made);
  CHECK(readlink(NODE_TYPE, text, sizeof text) == -1 && errno == EINVAL);
  CHECK(readlinkat(AT_FDCWD, NODE_TYPE, text, sizeof text) == -1 && errno == EINVAL);
  const int watcher = inotify_init1(IN_CLOEXEC);
  CHECK_QUIET(inotify_add_watch(watcher, DEVICE, IN_CREATE) >= 0);
  close(watcher);
}

static bool opens_node(int fd) {
  struct stat st;
  const bool is_node = fstat(fd, &st) == 0 && S_ISCHR(st.st_mode);
  close(fd);
  return is_node;
}

static void probe_relative(void) {
  char before[PATH_MAX];
  CHECK(getcwd(before, sizeof before) != NULL);
  CHECK_QUIET(chdir("/sys/class/infiniband") == 0);
  CHECK(reads_node_type(open("verbena0/node_type", O_RDONLY)));
  CHECK(access("../infiniband_verbs/abi_version", R_OK) == 0);
  CHECK(chdir("/sys/class") == 0);
  CHECK(reads_node_type(open("infiniband/verbena0/node_type", O_RDONLY)));
  const int sys = open("/sys", O_RDONLY | O_DIRECTORY);
  CHECK(reads_node_type(openat(sys, "class/infiniband/verbena0/node_type", O_RDONLY)));
  close(sys);
  const int nodes = open("/dev/infiniband", O_RDONLY | O_DIRECTORY);
  CHECK_QUIET(opens_node(openat(nodes, "uverbs192", O_RDWR)));
  CHECK_QUIET(fchdir(nodes) == 0);
  CHECK_QUIET(opens_node(open("uverbs192", O_RDWR)));
  close(nodes);
  CHECK(chdir(before) == 0);
}

/* `ls -a` looks at the directory above; so do programs that join paths. */
static void probe_ways_out(void) {
  CHECK(access("/sys/class/infiniband/..", R_OK) == 0);
  CHECK(access("/dev/infiniband/../null", R_OK) == 0);
  CHECK(access(DEVICE "/../../net/lo/mtu", R_OK) == 0);
  CHECK(access("/dev/infiniband/../missing", R_OK) == -1 && errno == ENOENT);
  const int null = open("/dev/infiniband/../null", O_WRONLY);
  CHECK(null >= 0);
  close(null);
}

void probe_paths(void) {
  probe_open();
  probe_making();
  probe_streams();
  probe_listing();
  probe_glob();
  probe_names();
  probe_relative();
  probe_ways_out();
}
