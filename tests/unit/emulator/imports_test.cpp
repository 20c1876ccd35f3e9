// SPDX-License-Identifier: BSD-2-Clause
// Tests from which context an importer gets its objects, and what both are told when the other one
// changes or goes.
#include "imports.hpp"

#include <sys/un.h>

#include "client_fixture.hpp"
#include "verbena/control/import_messages.hpp"

namespace verbena::daemon {
namespace {

class ImportsTest : public ClientsTest {
 protected:
  static void give_name(const Client& client, const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    ASSERT_EQ(::bind(client.fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  void import(const Client& importer, const std::string& owner, std::uint32_t sequence) {
    imports_.on_import(*importer.session,
                       incoming(control::Import{owner, control::ObjectKind::kRegion, 7}, sequence));
  }
  // Imports one region from the context with the name that the importer uses.
  void import_one(const Client& importer, const Client& owner) {
    import(importer, name_, 5);
    const auto query = heard<control::ExportQuery>(owner).first;
    EXPECT_EQ(query.number, 7u);
    control::ExportedObject object;
    object.length = 4096;
    imports_.on_exported(*owner.session, incoming(control::Exported{query.ticket, 0, "", object}));
    const auto [imported, sequence] = heard<control::Imported>(importer);
    EXPECT_EQ(sequence, 5u);
    EXPECT_EQ(imported.object.length, 4096u);
  }
  void change(const Client& owner, std::uint32_t sequence) {
    imports_.on_region_changed(*owner.session, incoming(control::RegionChanged{}, sequence));
  }
  void disconnect(const Client& client) {
    ClientsTest::disconnect(client);
    questions_.on_client_gone(client.id);
    imports_.on_client_gone(client.id);
    orders_.on_client_gone(client.id);
  }

  const std::string name_ = "owner-" + std::to_string(::getpid());
  Questions questions_{clients_};
  OutstandingOrders orders_{clients_, reactor_};
  Imports imports_{clients_, questions_, orders_};
};

TEST_F(ImportsTest, TheOwnerIsFoundByTheNameOfItsSocket) {
  const Client owner = connect_context();
  const Client other = connect_context();
  const Client importer = connect_context("b");
  give_name(owner, name_);
  import(importer, "", 1);
  EXPECT_EQ(refusal(importer, 1), ENOENT);
  import(importer, "nobody", 2);
  EXPECT_EQ(refusal(importer, 2), ENOENT);
  import_one(importer, owner);
  EXPECT_TRUE(hears_nothing(other));
}

TEST_F(ImportsTest, WhatTheOwnerRefusesIsRefused) {
  const Client owner = connect_context();
  const Client importer = connect_context();
  give_name(owner, name_);
  import(importer, name_, 1);
  const std::uint32_t ticket = heard<control::ExportQuery>(owner).first.ticket;
  imports_.on_exported(*importer.session, incoming(control::Exported{ticket, 0, "", {}}));
  EXPECT_TRUE(hears_nothing(importer));
  imports_.on_exported(*owner.session, incoming(control::Exported{ticket, EPERM, "no", {}}));
  EXPECT_EQ(refusal(importer, 1), EPERM);
}

TEST_F(ImportsTest, AnImporterKeepsItsFirstOwnerAlsoWhenThatHasGone) {
  const Client importer = connect_context();
  {
    const Client owner = connect_context();
    give_name(owner, name_);
    import_one(importer, owner);
    import(importer, name_, 6);
    disconnect(owner);
  }
  EXPECT_EQ(refusal(importer, 6), ENOENT);
  heard<control::OwnerGone>(importer);
  const Client next = connect_context();
  give_name(next, name_);
  import(importer, name_, 7);
  EXPECT_EQ(refusal(importer, 7), ENOENT);
  EXPECT_TRUE(hears_nothing(next));
}

TEST_F(ImportsTest, AChangeIsSettledWhenAllImportersHaveFollowed) {
  const Client owner = connect_context();
  const Client importer = connect_context();
  const Client stranger = connect_context();
  give_name(owner, name_);
  import_one(importer, owner);
  change(owner, 8);
  const std::uint32_t ticket = heard<control::RegionChanged>(importer).first.ticket;
  change(owner, 9);
  EXPECT_EQ(refusal(owner, 9), EBUSY);
  imports_.on_region_followed(*importer.session, incoming(control::RegionFollowed{ticket}));
  const auto [settled, sequence] = heard<control::RegionSettled>(owner);
  EXPECT_EQ(sequence, 8u);
  EXPECT_EQ(settled.silent.count, 0u);
  EXPECT_TRUE(hears_nothing(stranger));
}

TEST_F(ImportsTest, AChangeIsSettledWhenTheImporterGoes) {
  const Client owner = connect_context();
  const Client importer = connect_context();
  give_name(owner, name_);
  import_one(importer, owner);
  change(owner, 8);
  disconnect(importer);
  heard<control::RegionSettled>(owner);
}

}  // namespace
}  // namespace verbena::daemon
