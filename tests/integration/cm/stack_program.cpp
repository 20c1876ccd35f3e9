// SPDX-License-Identifier: BSD-2-Clause
// rdma_cm writes its answers to memory on stacks: of the first thread, of other threads, of a
// coroutine. Beside each stack are wrong pointers, which give EFAULT wherever the program runs.
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t kStack = 256 * 1024;

void need(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s (errno %d)\n", what, errno);
  std::_Exit(1);
}

template <typename Body>
bool write_command(int channel, std::uint32_t number, const Body& body, std::uint16_t room) {
  struct {
    rdma_ucm_cmd_hdr header;
    Body body;
  } command{{number, sizeof body, room}, body};
  return ::write(channel, &command, sizeof command) == sizeof command;
}

// Returns true if an ID was made and its number was written to `answer`.
bool create_id(int channel, std::uintptr_t answer) {
  rdma_ucm_create_id create{};
  create.response = answer;
  create.ps = RDMA_PS_TCP;
  return write_command(channel, RDMA_USER_CM_CMD_CREATE_ID, create,
                       sizeof(rdma_ucm_create_id_resp));
}

void expect_fault(int channel, std::uintptr_t answer, const char* what) {
  errno = 0;
  need(!create_id(channel, answer) && errno == EFAULT, what);
}

// Lets answers go to the current stack. With `bare`, nothing is mapped above the stack's `end`.
void check(int channel, std::uintptr_t end, bool bare) {
  rdma_ucm_create_id_resp answers[3] = {};
  for (auto& answer : answers) {
    need(create_id(channel, reinterpret_cast<std::uintptr_t>(&answer)), "an answer on the stack");
    need(answer.id != 0, "an ID");
  }
  need(answers[0].id != answers[1].id && answers[1].id != answers[2].id, "three answers");
  if (bare) expect_fault(channel, end - 2, "an answer that does not fit below the end");
  if (bare) expect_fault(channel, end, "an answer behind the end");
  // This memory is outside of all stacks: first a hole, then read-only.
  void* hole = ::mmap(nullptr, kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(hole != MAP_FAILED, "mmap");
  expect_fault(channel, reinterpret_cast<std::uintptr_t>(hole), "an answer into a hole");
  need(::mprotect(hole, kStack, PROT_READ) == 0, "mprotect");
  expect_fault(channel, reinterpret_cast<std::uintptr_t>(hole), "an answer to what is constant");
  ::munmap(hole, kStack);
  expect_fault(channel, 8, "an answer to nowhere");
}

// Returns memory that has an inaccessible page on either side.
std::uintptr_t bare_stack() {
  void* whole = ::mmap(nullptr, 3 * kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(whole != MAP_FAILED, "mmap");
  auto* begin = static_cast<std::uint8_t*>(whole) + kStack;
  need(::mprotect(begin, kStack, PROT_READ | PROT_WRITE) == 0, "mprotect");
  return reinterpret_cast<std::uintptr_t>(begin);
}

struct Task {
  int channel;
  std::uintptr_t stack;
} task;
ucontext_t caller;
ucontext_t coroutine;

void run_coroutine() {
  check(task.channel, task.stack + kStack, true);
  ::swapcontext(&coroutine, &caller);
}

void check_in_coroutine(int channel) {
  task = {channel, bare_stack()};
  need(::getcontext(&coroutine) == 0, "getcontext");
  coroutine.uc_stack.ss_sp = reinterpret_cast<void*>(task.stack);
  coroutine.uc_stack.ss_size = kStack;
  ::makecontext(&coroutine, run_coroutine, 0);
  need(::swapcontext(&caller, &coroutine) == 0, "swapcontext");
}

void* run_thread(void* argument) {
  const Task& mine = *static_cast<Task*>(argument);
  check(mine.channel, mine.stack + kStack, mine.stack != 0);
  check_in_coroutine(mine.channel);
  return nullptr;
}

void check_in_thread(int channel, bool own_memory) {
  Task mine{channel, own_memory ? bare_stack() : 0};
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  if (own_memory) {
    need(::pthread_attr_setstack(&attributes, reinterpret_cast<void*>(mine.stack), kStack) == 0,
         "pthread_attr_setstack");
  }
  pthread_t thread;
  need(::pthread_create(&thread, &attributes, run_thread, &mine) == 0, "pthread_create");
  ::pthread_join(thread, nullptr);
}

}  // namespace

int main() {
  const int channel = ::open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  need(channel >= 0, "open");
  check_in_coroutine(channel);  // before a call has used the thread's own stack
  check(channel, 0, false);
  check_in_coroutine(channel);
  check_in_thread(channel, false);
  check_in_thread(channel, true);
  ::close(channel);
  std::puts("good");
  return 0;
}
