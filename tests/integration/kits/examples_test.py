#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The projects in examples/, and small projects that use verbena_add_test and verbena/gtest.hpp. Each is built against
an installed prefix, as a user builds it.

    examples_test.py PREFIX
"""

import json
import re
import shutil
import subprocess
import sys
import textwrap
import unittest

from kit_case import LIMIT, ROOT, KitCase, free_port

PREFIX = None
STRICT = "-Wall -Wextra -Wshadow -Wconversion -pedantic -Werror"


class Case(KitCase):
    def setUp(self):
        super().setUp()
        self.build = self.folder / "build"
        self.environment = {"PATH": f"{PREFIX}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent",
                            "XDG_RUNTIME_DIR": str(self.outer)}

    def command(self, *words, **more):
        return subprocess.run(words, env=self.environment, cwd=self.folder, text=True, capture_output=True, timeout=LIMIT,
                              check=False, **more)

    def configure(self, source, *options):
        return self.command("cmake", "-S", source, "-B", self.build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}",
                            f"-DCMAKE_CXX_FLAGS={STRICT}", *options)

    def built(self, source, *options):
        configured = self.configure(source, *options)
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        done = self.command("cmake", "--build", self.build)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def ctest(self, *words):
        """Runs ctest. Returns {test: (whether it passed, its output)}."""
        done = self.command("ctest", "--test-dir", self.build, "-V", *words)
        results = {name: result.strip() == "Passed" for name, result in
                   re.findall(r"Test +#\d+: (\S+) \.+ *(?:\*\*\*)?(\w+)", done.stdout)}
        self.assertTrue(results, done.stdout + done.stderr)
        return {name: (passed, self.output_of(name, done.stdout)) for name, passed in results.items()}

    def output_of(self, name, log):
        number = re.search(rf"Test +#(\d+): {re.escape(name)} ", log)[1]
        return "".join(re.findall(rf"^{number}: (.*\n)", log, re.MULTILINE))

    def write(self, **files):
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        for name, text in files.items():
            (source / {"cmake": "CMakeLists.txt"}.get(name, f"{name}.cpp")).write_text(textwrap.dedent(text))
        return source


class Cpp(Case):
    def test_it_passes(self):
        self.built(ROOT / "examples/cpp")
        results = self.ctest("-j4")
        self.assertEqual(set(results), {"Connection.DeliversMessagesInOrder", "Connection.DeliversThemOnABadLine",
                                        "Connection.ThrowsWhereNobodyListens", "Connection.ThrowsWhenThePeerIsNotReached",
                                        "messages", "messages_on_a_bad_line"})
        for name, (passed, output) in results.items():
            self.assertTrue(passed, f"{name}:\n{output}")
        self.assertIn("client| 100 messages\n", results["messages"][1])


class RcBug(Case):
    def test_only_the_lost_acknowledgement_shows_it(self):
        self.built(ROOT / "examples/rc_bug", f"-DPORT={free_port()}")
        results = self.ctest()
        self.assertEqual({name: passed for name, (passed, _) in results.items()},
                         {"good_line": True, "lost_ack": False, "lost_ack_careful": True}, results)
        self.assertIn("client| rc_example: transport retry counter exceeded\n", results["lost_ack"][1])
        self.assertRegex(results["lost_ack"][1], r"client\| verbena: rc_example\[\d+\]: RC queue pair .* has ended\n")
        readme = (ROOT / "examples/rc_bug/README.md").read_text()
        self.assertIn("rc_example: transport retry counter exceeded", readme)
        self.assertIn("fired once, of 1 that it names", results["lost_ack_careful"][1])

    def test_a_scenario_that_meets_nothing(self):
        """Ten messages have no hundredth acknowledgement, so the rule never meets a packet."""
        source = self.folder / "source"
        shutil.copytree(ROOT / "examples/rc_bug", source)
        scenario = source / "lost_ack.toml"
        scenario.write_text(scenario.read_text().replace("psn = 9\n", "psn = 99\n"))
        self.built(source, f"-DPORT={free_port()}")
        results = self.ctest()
        self.assertEqual({name: passed for name, (passed, _) in results.items()},
                         {"good_line": True, "lost_ack": False, "lost_ack_careful": False}, results)
        for name in ("lost_ack", "lost_ack_careful"):
            self.assertIn("never fired, of 0 that it names", results[name][1])


class AddTest(Case):
    """verbena_add_test with mistakes, or with arguments left out."""

    HEAD = """
        cmake_minimum_required(VERSION 3.25)
        project(small NONE)
        find_package(Verbena REQUIRED)
        enable_testing()
        """

    def refused(self, text, reason):
        source = self.write(cmake=textwrap.dedent(self.HEAD) + text)
        configured = self.configure(source)
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn(reason, " ".join(configured.stderr.split()))

    def test_no_name(self):
        self.refused("verbena_add_test(COMMAND true)", "verbena_add_test: NAME is missing")

    def test_an_unknown_word(self):
        self.refused("verbena_add_test(NAME a PRIVAT COMMAND true)", 'verbena_add_test(a): unknown: "PRIVAT"')

    def test_neither_one_command_nor_a_pair(self):
        for words in ('PAIR "true"', 'PAIR "" ""', 'PAIR a b c', 'PAIR a b COMMAND true', "PAIR", "COMMAND", 'COMMAND ""'):
            with self.subTest(words):
                self.refused(f"verbena_add_test(NAME a {words})", "verbena_add_test(a): give COMMAND, or PAIR with two commands")

    def test_a_scenario_that_is_not_there(self):
        self.refused("verbena_add_test(NAME a COMMAND true SCENARIO none.toml)", "there is no scenario")

    def test_rules_that_must_fire_and_are_not_there(self):
        self.refused("verbena_add_test(NAME a COMMAND true PRIVATE REQUIRE_FIRED)",
                     "verbena_add_test(a): REQUIRE_FIRED wants rules: SCENARIO or INJECT")

    def test_values_that_are_empty(self):
        """Such as a variable that is not set. A test without its faults would pass."""
        for words, reason in (('INJECT ""', "INJECT without a rule"), ("INJECT", "INJECT without a rule"),
                              ('INJECT "drop nth=1" "" "drop nth=2"', "INJECT without a rule"),
                              ('SCENARIO ""', "SCENARIO names nothing"), ("ARTIFACTS", "ARTIFACTS names nothing")):
            with self.subTest(words):
                self.refused(f"verbena_add_test(NAME a COMMAND true PRIVATE {words})", f"verbena_add_test(a): {reason}")

    def test_times_that_are_none(self):
        for time in ("0", "0.00", "abc", "1e3", '""', "$<IF:1,5,6>", "5.", "99999999999999999999"):
            with self.subTest(time):
                self.refused(f"verbena_add_test(NAME a COMMAND true TIMEOUT {time})", "verbena_add_test(a): TIMEOUT wants seconds")

    def test_what_becomes_of_commands(self):
        source = self.write(cmake=textwrap.dedent(self.HEAD) + textwrap.dedent("""
            verbena_add_test(NAME sees COMMAND ibv_devinfo -d verbena0 PRIVATE)
            verbena_add_test(NAME named COMMAND ibv_devinfo -d mlx5_0 PRIVATE OPTIONS --device mlx5_0)
            verbena_add_test(NAME fails COMMAND sh -c "exit 3" PRIVATE)
            verbena_add_test(NAME late COMMAND sleep 1000 PRIVATE TIMEOUT 1)
            verbena_add_test(NAME soon COMMAND sleep 1000 PRIVATE TIMEOUT 0.5)
            verbena_add_test(NAME kept COMMAND ibv_devinfo PRIVATE ARTIFACTS kept)
            verbena_add_test(NAME ruled COMMAND sh -c "verbena status" PRIVATE INJECT "drop opcode=SEND nth=9" "duplicate nth=7"
              INJECT "drop nth=8")
            """))
        configured = self.configure(source)
        self.assertEqual(configured.returncode, 0, configured.stderr)
        results = self.ctest()
        self.assertEqual({name: passed for name, (passed, _) in results.items()},
                         {"sees": True, "named": True, "fails": False, "late": False, "soon": False, "kept": True, "ruled": True}, results)
        self.assertTrue((self.build / "kept/run.json").is_file())
        for rule in ("drop opcode=SEND nth=9", "duplicate nth=7", "drop nth=8"):
            self.assertIn(rule, results["ruled"][1])

    def test_a_project_with_old_policies(self):
        source = self.write(cmake="""
            cmake_minimum_required(VERSION 3.0)
            project(small NONE)
            set(unknown x CACHE STRING "")
            set(T_INJECT x CACHE STRING "")
            find_package(Verbena REQUIRED)
            enable_testing()
            verbena_add_test(NAME old COMMAND true PRIVATE)
            """)
        configured = self.configure(source)
        self.assertEqual(configured.returncode, 0, configured.stderr)

    PAIR = """
        cmake_minimum_required(VERSION 3.25)
        project(small CXX)
        find_package(Verbena REQUIRED)
        enable_testing()
        add_executable(small small.cpp)
        verbena_add_test(NAME pair PAIR "small server" "small client; exit 0" PRIVATE)
        """

    def test_a_pair_in_a_folder_of_any_name(self):
        source = self.write(cmake=self.PAIR, small="""
            #include <cstdio>
            #include <unistd.h>
            int main(int, char** words) {
              std::puts(words[1]);
              std::fflush(stdout);
              sleep(*words[1] == 's' ? 7 : 0);
            }
            """)
        for name in ("it's here", "in $HOME `x` \\"):
            with self.subTest(name):
                self.build = self.folder / name
                self.built(source)
                [(passed, output)] = self.ctest().values()
                self.assertTrue(passed, output)
                self.assertIn("client| client\n", output)
        self.build = self.folder / "it's $HOME"
        configured = self.configure(source)
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn("verbena_add_test(pair): PAIR cannot take programs from", " ".join(configured.stderr.split()))

    def test_words_that_hold_anything(self):
        """A command of the shell may have semicolons, an empty word stays, a target's path may have blanks, and neither a
        backslash nor a bracket joins two words."""
        self.build = self.folder / "with blanks"
        self.built(self.write(cmake="""
            cmake_minimum_required(VERSION 3.25)
            project(small CXX)
            find_package(Verbena REQUIRED)
            enable_testing()
            add_executable(small small.cpp)
            add_custom_target(sh)
            verbena_add_test(NAME last COMMAND sh -c "true; exit 3" PRIVATE)
            verbena_add_test(NAME words COMMAND small "" "a;b" "\\\\" "[" "$HOME" "\\"q" "]" "c\\\\" PRIVATE OPTIONS --quiet)
            verbena_add_test(NAME "two;names" COMMAND small "" PRIVATE ARTIFACTS "kept;here")
            verbena_add_test(NAME pair PAIR "true; '${CMAKE_BINARY_DIR}/small' server" "small client; exit 0" PRIVATE)
            """, small=r"""
            #include <unistd.h>
            #include <cstdio>
            #include <cstring>
            int main(int count, char** words) {
              for (int i = 1; i < count; ++i) std::printf("<%s>", words[i]);
              std::puts("");
              std::fflush(stdout);
              if (std::strcmp(words[1], "server") == 0) pause();
            }
            """))
        results = self.ctest()
        self.assertEqual({name: passed for name, (passed, _) in results.items()},
                         {"last": False, "words": True, "two;names": True, "pair": True}, results)
        self.assertIn("<><a;b><\\><[><$HOME><\"q><]><c\\>", results["words"][1])
        self.assertTrue((self.build / "kept;here/run.json").is_file())
        self.assertIn("client| <client>", results["pair"][1])


class Header(Case):
    def test_what_it_says(self):
        """verbena/gtest.hpp: assertions that hold and that fail, the scope of faults, and a preload library that is not
        loaded."""
        source = self.write(cmake="""
            cmake_minimum_required(VERSION 3.25)
            project(small CXX)
            find_package(Verbena REQUIRED)
            find_package(GTest REQUIRED)
            add_executable(small small.cpp)
            target_link_libraries(small Verbena::gtest GTest::gtest_main)
            """, small=r"""
            #include <verbena/gtest.hpp>
            #include <dlfcn.h>
            static int commands = 0;
            extern "C" int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                                        const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
              ++commands;
              return reinterpret_cast<decltype(&posix_spawnp)>(dlsym(RTLD_NEXT, "posix_spawnp"))(
                  pid, file, actions, attributes, words, environment);
            }
            [[maybe_unused]] static auto* const device =
                ::testing::AddGlobalTestEnvironment(new verbena::testing::Environment({"--device", "mlx5_0"}));
            TEST(Small, BeginsWithOneCommand) {
              EXPECT_EQ(commands, 1);
              commands = 0;
            }
            TEST(Small, Holds) {
              EXPECT_VERBENA_COUNTER("port_xmit_packets", ==, 0);
              EXPECT_VERBENA_DROPS("injected_fault", <=, 0);
              EXPECT_EQ(verbena::testing::counters().at("rdma_sends"), 0u);
              EXPECT_TRUE(verbena::testing::drops().empty());
              EXPECT_EQ(verbena::testing::status()["devices"].items().at(0)["name"].text(), "mlx5_0");
            }
            TEST(Small, FaultsEndWithTheirScope) {
              const auto faults = [] { return verbena::testing::status()["devices"].items().at(0)["faults"].items(); };
              {
                const verbena::testing::Fault fault{"--data", "--loss", "1%", "--seed", "5"};
                ASSERT_EQ(faults().size(), 1u);
                EXPECT_EQ(faults()[0]["loss_ppm"].number(), 10000u);
              }
              EXPECT_TRUE(faults().empty());
            }
            TEST(Small, RecordsTheSeed) { const verbena::testing::Fault fault{"--loss", "1%"}; }
            TEST(Small, Fails) {
              EXPECT_VERBENA_COUNTER("port_xmit_packets", >, 0);
              EXPECT_VERBENA_COUNTER("port_xmit_packet", ==, 0);
              EXPECT_VERBENA_DROPS("injected_fault", !=, 0);
              const verbena::testing::Fault fault{"--loss", "much"};
            }
            TEST(Small, ReadsJson) {
              using verbena::testing::Json;
              const Json value = Json::parse(R"( {"a": [1, -2.5e3, true, null, {}], "b\n\u00e9": "\"\\"} )");
              EXPECT_EQ(value["a"].items().at(0).number(), 1u);
              EXPECT_EQ(value["a"].items().at(1).text(), "-2.5e3");
              EXPECT_TRUE(value["a"].items().at(2).is_true());
              EXPECT_TRUE(value["a"].items().at(4).is_object());
              EXPECT_EQ(value["b\n\u00e9"].text(), "\"\\");
              EXPECT_TRUE(value["c"]["d"].is_null());
              for (const char* wrong : {"", "{", "[1,]", "{\"a\":}", "\"", "\"\\u00", "1 2", "nul"}) {
                EXPECT_TRUE(Json::parse(wrong).is_null()) << wrong;
              }
              EXPECT_TRUE(Json::parse(std::string(100000, '[')).is_null());
            }
            """)
        self.built(source)
        done = self.command(self.build / "small")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(re.findall(r"^\[  FAILED  \] (\S+)$", done.stdout, re.MULTILINE), ["Small.Fails"], done.stdout)
        for text in ("counter port_xmit_packets is 0, and not > 0\n", "there is no counter port_xmit_packet; there are ",
                     "the number of packets dropped for injected_fault is 0, and not != 0\n",
                     'verbena fault: verbena: "much" is not a share'):
            self.assertIn(text, done.stdout)
        done = self.command(self.build / "small", "--gtest_filter=*Seed", "--gtest_output=json:said.json")
        self.assertEqual(done.returncode, 0, done.stdout)
        [recorded] = json.loads((self.folder / "said.json").read_text())["testsuites"][0]["testsuite"]
        self.assertRegex(recorded["seed"], r"^\d+$")
        repeated = self.command(self.build / "small", "--gtest_filter=*OneCommand", "--gtest_repeat=3",
                                "--gtest_recreate_environments_when_repeating")
        self.assertEqual(repeated.returncode, 0, repeated.stdout)
        listed = self.command(self.build / "small", "--gtest_list_tests", "--gtest_filter=*Holds")
        self.assertEqual((listed.returncode, listed.stdout.splitlines()[-2:]), (0, ["Small.", "  Holds"]))
        self.environment["LD_PRELOAD"] = "/nonexistent/libverbena-preload.so"
        done = self.command(self.build / "small")
        self.assertEqual(done.returncode, 1)
        self.assertIn("verbena: this program does not load what LD_PRELOAD names; `verbena doctor` says why", done.stdout)


if __name__ == "__main__":
    PREFIX = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
