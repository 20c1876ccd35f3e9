// SPDX-License-Identifier: BSD-2-Clause
#include "client_table.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "verbena/fault/rule.hpp"

namespace verbena::daemon {
namespace {

// Returns the VERBENA_ROLE with which the process began; empty if it is not known.
std::string role_of(std::uint32_t pid) {
  constexpr std::string_view kName = "VERBENA_ROLE=";
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
  for (std::string word; std::getline(file, word, '\0');) {
    if (word.starts_with(kName)) return word.substr(kName.size());
  }
  return {};
}

}  // namespace

Session& ClientTable::add(control::UniqueFd fd, std::uint32_t pid, Session::Events events) {
  const Session::Id id = next_id_++;
  auto session =
      std::make_unique<Session>(id, std::move(fd), pid, reactor_, shares_, std::move(events));
  session->start();
  shares_.descriptors.take(pid);
  return *sessions_.emplace(id, std::move(session)).first->second;
}

std::unique_ptr<Session> ClientTable::remove(Session::Id id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return nullptr;
  std::unique_ptr<Session> session = std::move(found->second);
  sessions_.erase(found);
  shares_.descriptors.give_back(session->info.pid);
  return session;
}

Session* ClientTable::find(Session::Id id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void ClientTable::add_context(Session& session) {
  contexts_[{session.context->port, session.context->slot}] = &session;
}

void ClientTable::remove_context(const Session& session) {
  contexts_.erase({session.context->port, session.context->slot});
}

std::vector<Session*> ClientTable::contexts_of(const std::string& device) const {
  std::vector<Session*> all;
  for (const auto& [key, session] : contexts_) {
    if (device.empty() || key.first->info().name == device) all.push_back(session);
  }
  return all;
}

Session* ClientTable::context_of(const IpAddress& address, std::uint32_t slot) const {
  for (const auto& [key, session] : contexts_) {
    if (key.second == slot && key.first->has_address(address)) return session;
  }
  return nullptr;
}

Session* ClientTable::context_with_slot(const fabric::Port& port, std::uint32_t slot) const {
  const auto found = std::ranges::find_if(contexts_, [&](const auto& entry) {
    return entry.first.first == &port && entry.second->context->has_slot(slot);
  });
  return found == contexts_.end() ? nullptr : found->second;
}

const fabric::ClientInfo* ClientTable::info(fabric::ClientId client) const {
  const Session* const session = find(client);
  return session == nullptr ? nullptr : &session->info;
}

bool ClientTable::is_called(fabric::ClientId client, const std::string& name) const {
  const fabric::ClientInfo* const known = info(client);
  return known != nullptr && (fault::is_called(known->comm, name) || role_of(known->pid) == name);
}

void ClientTable::send(fabric::ClientId client, std::span<const std::uint8_t> packet,
                       std::span<const int> fds) {
  if (Session* const session = find(client)) session->send_packet(packet, fds);
}

void ClientTable::catch_up(fabric::ClientId client) {
  if (Session* const session = find(client)) session->catch_up();
}

}  // namespace verbena::daemon
