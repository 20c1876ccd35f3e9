// SPDX-License-Identifier: BSD-2-Clause
// Write what an asker is told, in two forms: JSON for `verbena status`, and the plain messages from
// which the preload library makes netlink answers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "status_json.hpp"
#include "status_stream.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

// The rdma_cm IDs of all programs, one page after the other.
class CmIdPages {
 public:
  // Returns the next IDs behind `number`; empty: there are none.
  using Behind = std::function<std::vector<CmIdOfProcess>(std::uint32_t number)>;
  explicit CmIdPages(Behind behind) : behind_(std::move(behind)) {}

  // Returns the next page; empty: there is none.
  std::vector<CmIdOfProcess> next();

 private:
  Behind behind_;
  std::uint32_t last_ = 0;
};

class StatusTextWriter final : public StatusWriter {
 public:
  using Send = std::function<void(const control::StatusText&)>;
  StatusTextWriter(EmulatorStatus emulator, fabric::Fabric& fabric, bool resets, CmIdPages cm_ids,
                   Send send)
      : emulator_(std::move(emulator)),
        fabric_(fabric),
        resets_(resets),
        cm_ids_(std::move(cm_ids)),
        send_(std::move(send)) {}

  void begin() override;
  bool cm_ids() override;
  void device(const fabric::Port& port) override;
  bool context(const ContextStatus& context) override;
  bool objects(std::span<const control::QpStatus> qps) override;
  bool objects(std::span<const control::CqStatus> cqs) override;
  bool objects(std::span<const control::SrqStatus> srqs) override;
  void context_end(bool is_complete) override;
  void end() override;

 private:
  void send(control::StatusPart part, std::string text);
  template <typename Objects>
  void send_lines(control::StatusPart part, const Objects& objects);

  EmulatorStatus emulator_;
  fabric::Fabric& fabric_;
  bool resets_;  // resets the counters of each device once they are told
  CmIdPages cm_ids_;
  Send send_;
};

class ResourcesWriter final : public StatusWriter {
 public:
  using Send = std::function<void(const control::Resources&)>;
  ResourcesWriter(control::QueryResources query, CmIdPages cm_ids, Send send)
      : query_(std::move(query)), cm_ids_(std::move(cm_ids)), send_(std::move(send)) {}

  void begin() override {}
  bool cm_ids() override;
  void device(const fabric::Port& port) override;
  bool context(const ContextStatus& context) override;
  bool objects(std::span<const control::QpStatus> qps) override;
  bool objects(std::span<const control::CqStatus> cqs) override;
  bool objects(std::span<const control::SrqStatus> srqs) override;
  void context_end(bool is_complete) override;
  void end() override;

 private:
  // Objects of the device that were told, by kind.
  struct Told {
    std::size_t qps = 0;
    std::size_t cqs = 0;
    std::size_t srqs = 0;
  };

  bool wants(control::ResourcesOf kind) const { return query_.of == kind; }
  // Returns true if the ID belongs to the device that was asked for.
  bool is_asked_for(const fabric::CmIdStatus& id) const;
  // Tells as many objects as may still be told. Returns true if more may be.
  template <typename Object>
  bool tell(std::span<const Object> objects, std::vector<Object>& list, std::size_t& told);
  void send_part();

  control::QueryResources query_;
  CmIdPages cm_ids_;
  std::size_t told_cm_ids_ = 0;
  Send send_;
  control::ContextResources part_;  // the current context's; its counts are sent only once
  Told told_;
};

}  // namespace verbena::daemon
