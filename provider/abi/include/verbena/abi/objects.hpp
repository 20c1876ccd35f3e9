// SPDX-License-Identifier: BSD-2-Clause
// The private structures that libibverbs and a provider share: the parts that are the same in every
// generation, and room for the parts that grow. Sizes and offsets are those of 64-bit Linux.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbena::abi {

// What libibverbs knows of a device that it has found. Later fields differ between generations.
struct FoundDevice {
  void* list[2];
  void* provider_data;
  const void* match;
  unsigned flags;
  char node_name[64];         // "uverbs192"
  std::uint64_t node_number;  // dev_t; 0 if not known
  char device_name[64];       // "verbena0"
};
static_assert(offsetof(FoundDevice, node_name) == 36);
static_assert(offsetof(FoundDevice, node_number) == 104);
static_assert(offsetof(FoundDevice, device_name) == 112);

// The provider allocates it, zeroed and larger than any generation's; libibverbs fills it.
struct PrivateDevice {
  ibv_device device;
  unsigned char room[1024 - sizeof(ibv_device)];
};
static_assert(sizeof(ibv_device) == 664);

// A memory region. libibverbs reads the two fields behind the public part.
struct PrivateMr {
  ibv_mr mr;
  std::uint32_t type;  // a MrType
  std::int32_t access;
};
static_assert(offsetof(PrivateMr, type) == 48);

enum MrType : std::uint32_t { kMrOrdinary = 0, kMrNull = 1, kMrImported = 2 };

// The public part of a queue pair, and room for what newer generations put behind it: builder
// functions, then a word whose bit 1 says that they are there.
struct PrivateQp {
  union {
    ibv_qp qp;
    ibv_qp_ex ex;
    unsigned char room[512];
  };
};
inline constexpr std::uint32_t kQpHasBuilder = 2;
// The first function behind those that all generations have. The offset depends on the
// architecture, because a queue pair contains a mutex and a condition variable, whose sizes the C
// library chooses.
inline constexpr std::size_t kWrAtomicWriteOffset = offsetof(ibv_qp_ex, wr_abort) + sizeof(void*);
inline constexpr std::size_t kWrFlushOffset = kWrAtomicWriteOffset + sizeof(void*);
#ifdef __x86_64__
static_assert(kWrAtomicWriteOffset == 344);
#endif

// The public part of a completion queue, with room to grow.
struct PrivateCq {
  union {
    ibv_cq cq;
    ibv_cq_ex ex;
    unsigned char room[512];
  };
};

// A shared receive queue. Only the provider's own helpers in libibverbs, which are not used here,
// read the private part behind the public one.
struct PrivateSrq {
  union {
    ibv_srq srq;
    unsigned char room[256];
  };
};

// The description of a provider, as generations from k31 on expect it; earlier ones lack
// `import_context`.
struct DriverDescription {
  const char* name;
  std::uint32_t match_min_abi;
  std::uint32_t match_max_abi;
  const void* match_table;
  const void* static_providers;
  bool (*match_device)(FoundDevice*);
  void* (*alloc_context)(ibv_device*, int, void*);
  void* (*import_context)(ibv_device*, int);
  PrivateDevice* (*alloc_device)(FoundDevice*);
  void (*uninit_device)(PrivateDevice*);
};

}  // namespace verbena::abi
