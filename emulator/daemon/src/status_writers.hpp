// SPDX-License-Identifier: BSD-2-Clause
// What an asker is told, in the two forms there are: JSON for `verbena status`, and the plain
// messages of which the preload library makes netlink answers. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "status_json.hpp"
#include "status_stream.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::daemon {

class StatusTextWriter final : public StatusWriter {
 public:
  using Send = std::function<void(const control::StatusText&)>;
  // The next rdma_cm IDs behind this one; empty: there are none.
  using CmIds = std::function<std::vector<CmIdOfProcess>(std::uint32_t number)>;
  StatusTextWriter(EmulatorStatus emulator, fabric::Fabric& fabric, bool resets, CmIds cm_ids,
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
  bool resets_;  // the counters of each device, once they are told
  CmIds cm_ids_;
  std::uint32_t last_cm_id_ = 0;
  Send send_;
};

class ResourcesWriter final : public StatusWriter {
 public:
  using Send = std::function<void(const control::Resources&)>;
  explicit ResourcesWriter(Send send) : send_(std::move(send)) {}

  void begin() override {}
  bool cm_ids() override { return false; }
  void device(const fabric::Port& port) override;
  bool context(const ContextStatus& context) override;
  bool objects(std::span<const control::QpStatus> qps) override;
  bool objects(std::span<const control::CqStatus>) override { return false; }
  bool objects(std::span<const control::SrqStatus>) override { return false; }
  void context_end(bool is_complete) override;
  void end() override;

 private:
  Send send_;
  control::ContextResources resources_;
  std::size_t told_ = 0;  // queue pairs of the device
};

}  // namespace verbena::daemon
