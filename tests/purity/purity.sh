#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# purity.sh ARCHIVE...: checks that the engine uses no socket, no clock, no thread and no
# libibverbs. What an archive uses from outside is among its undefined symbols; none of these may be
# forbidden. An archive that is missing or empty is a failure as well.
set -eu
forbidden='socket|bind|connect|accept4?|listen|sendto|sendmsg|sendmmsg|send|recv|recvfrom|recvmsg|recvmmsg|poll|ppoll|select|epoll_[a-z0-9_]+|eventfd|pipe2?|open|openat|fopen|read|pread|readv|write|pwrite|writev|ioctl|fcntl|mmap|munmap|mlock|syscall|futex|fork|exec[a-z]+|kill|sig[a-z]+|getenv|getpid|nanosleep|usleep|sleep|time|gettimeofday|clock_[a-z]+|timer_[a-z]+|timerfd_[a-z]+|rand|random|srand|getrandom|ibv_[a-z_]+|rdma_[a-z_]+|pthread_[a-z_]+|sem_[a-z]+|dlopen|dlsym|std::chrono::.*now\(\)|std::thread::.*|std::this_thread::.*|std::mutex.*|std::condition_variable.*|std::random_device.*|std::basic_[a-z]*fstream.*'
bad=0
for archive in "$@"; do
  if [ "$(nm -gC --defined-only "$archive" 2>/dev/null | grep -c verbena::)" -eq 0 ]; then
    echo "$archive: defines nothing of ours" >&2
    exit 2
  fi
  # Lines are "                 U name" with an optional @version or argument list.
  found=$(nm -uC "$archive" | sed -n 's/^ *[Uw] //p' | sed 's/@.*//' | grep -Ex "($forbidden)" | sort -u || true)
  if [ -n "$found" ]; then
    echo "$archive uses:" >&2
    echo "$found" | sed 's/^/  /' >&2
    bad=1
  fi
done
exit $bad
