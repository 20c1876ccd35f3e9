// SPDX-License-Identifier: BSD-2-Clause
// Defines three symbols that the static libstdc++ and libgcc of GCC 12 need, and that glibc has
// only after 2.31. They are linked into what scripts/package makes, and hidden from everything
// else.
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

// glibc 2.32 has this variable. Zero is always right: reference counts are then atomic.
HIDDEN char __libc_single_threaded = 0;

// glibc 2.36 has this function; std::random_device calls it.
HIDDEN uint32_t arc4random(void) {
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) abort();
  return number;
}

// glibc 2.35 has this function. It tells the unwinder where the table is of the object that holds
// an address. The structure is that of x86-64; on i386 and others it has more fields.
struct dl_find_object {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  struct link_map* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};

struct search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int look_into(struct dl_phdr_info* object, size_t size, void* cookie) {
  (void)size;
  const struct search* search = cookie;
  const ElfW(Phdr)* loaded = NULL;
  const ElfW(Phdr)* table = NULL;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_GNU_EH_FRAME) table = segment;
    if (segment->p_type == PT_LOAD && search->address >= start &&
        search->address - start < segment->p_memsz) {
      loaded = segment;
    }
  }
  if (loaded == NULL) return 0;
  if (table == NULL) return -1;
  search->found->map_start = (void*)(object->dlpi_addr + loaded->p_vaddr);
  search->found->map_end = (char*)search->found->map_start + loaded->p_memsz;
  search->found->eh_frame = (void*)(object->dlpi_addr + table->p_vaddr);
  return 1;
}

HIDDEN int _dl_find_object(void* address, struct dl_find_object* found) {
  struct search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
