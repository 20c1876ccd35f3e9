# SPDX-License-Identifier: BSD-2-Clause
"""A campaign: a sleeper that has armed its queue is woken, again and again, while processes spin on every processor.

    wakeups.py PREFIX PROGRAM
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "provider"))
import device as devices  # noqa: E402

ROUNDS = 100_000 * int(os.environ.get("VERBENA_LONG_FACTOR", "1"))
SCENARIOS = (["armed-sleepers-wake"], ["armed-sleepers-wake", "--size", "20000"], ["armed-sleepers-wake", "--ud"],
             ["one-completion-for-each-event"], ["one-completion-for-each-event", "--blocks"])


def main():
    prefix, program = sys.argv[1:]
    devices.LIMIT = 3600
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    failed = 0
    try:
        with devices.Emulator(prefix) as device:
            for link in ("auto", "udp"):
                device.environment["VERBENA_LINK"] = link
                for words in SCENARIOS:
                    done = device.run([program, *words, "--rounds", str(ROUNDS)])
                    print(link, *words, f"ended with {done.returncode}: {done.stdout}{done.stderr}".strip(), flush=True)
                    failed += done.returncode != 0
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
