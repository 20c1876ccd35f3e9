#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Finds where a program reads more at once than it has just written.

bench/stalls/stalls.py FILE [PATTERN]

A processor can give a read bytes that are still on their way to the cache only if one write holds all of them. Otherwise the read waits
until all earlier writes have reached the cache: some fifteen cycles, or as long as another processor takes to give up its lines.
Compilers cause this where a small structure is made in parts and copied as a whole. FILE is a program or library for x86-64, PATTERN a
regular expression for functions. It is run by hand: of the places that it prints, only those on the path of a message matter. It does
not see writes through another register, writes long before, and writes on another path.
"""

import collections
import re
import signal
import subprocess
import sys

# The number of writes that are remembered. Earlier ones have most likely reached the cache.
NEAR = 16

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
_LEAVES = re.compile(r"^\s*[0-9a-f]+:\s+(jmp|ret)")
_INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\s+(mov\w*)\s+(.+?)\s*(?:#.*)?$")
_MEMORY = re.compile(r"^(-?0x[0-9a-f]+)?\((%r\w+)\)$")
_OPERANDS = re.compile(r"^([^(,]*(?:\([^)]*\))?),(.*)$")
_SUFFIXES = {"b": 1, "w": 2, "l": 4, "q": 8}
_VECTORS = {"movaps": 16, "movups": 16, "movdqa": 16, "movdqu": 16, "movq": 8, "movsd": 8, "movhps": 8, "movlps": 8, "movd": 4, "movss": 4}

Access = collections.namedtuple("Access", "base offset width text")
Stall = collections.namedtuple("Stall", "function writes read")


def width_of(mnemonic, register):
    """Returns how many bytes a move between memory and this register or number takes; 0: not known."""
    if register.startswith("%xmm"):
        return _VECTORS.get(mnemonic, 0)
    if register.startswith("$"):
        return _SUFFIXES.get(mnemonic[-1], 0)
    for pattern, width in ((r"%r\d+b|%[a-d][lh]|%(si|di|bp|sp)l", 1), (r"%r\d+w|%([a-d]x|si|di|bp|sp)", 2), (r"%r\d+d|%e\w+", 4), (r"%r\w+", 8)):
        if re.fullmatch(pattern, register):
            return width
    return 0


def _access(operand, width, text):
    match = _MEMORY.match(operand)
    return Access(match[2], int(match[1] or "0", 16), width, text) if match and width else None


def _overlap(write, read):
    return write.base == read.base and write.offset < read.offset + read.width and read.offset < write.offset + write.width


def _holds(write, read):
    return write.offset <= read.offset and write.offset + write.width >= read.offset + read.width


def _extends(mnemonic):
    """Returns whether a move, such as movzbl, reads less than its register holds."""
    return mnemonic.startswith("movz") or (mnemonic.startswith("movs") and mnemonic not in _VECTORS)


def find(disassembly):
    """Yields the stalls in what `objdump -d --no-show-raw-insn` prints."""
    function, writes = "", collections.deque(maxlen=NEAR)
    for line in disassembly.splitlines():
        if match := _FUNCTION.match(line):
            function = match[1]
            writes.clear()
        if _LEAVES.match(line):
            writes.clear()
        match = _INSTRUCTION.match(line)
        operands = _OPERANDS.match(match[2]) if match else None
        if not operands:
            continue
        source, target = operands[1].strip(), operands[2].strip()
        text = " ".join(line.split())
        if write := _access(target, width_of(match[1], source), text):
            writes.append(write)
        elif target.startswith("%"):
            read = None if _extends(match[1]) else _access(source, width_of(match[1], target), text)
            parts = [write for write in writes if _overlap(write, read)] if read else []
            if parts and not _holds(parts[-1], read):
                yield Stall(function, [part.text for part in parts], read.text)
            # From here on the register points elsewhere.
            kept = [write for write in writes if write.base != target]
            writes = collections.deque(kept, maxlen=NEAR)


def main(arguments):
    if not 2 <= len(arguments) <= 3 or arguments[1].startswith("-"):
        sys.exit(__doc__.split("\n\n")[1])
    try:
        wanted = re.compile(arguments[2] if len(arguments) == 3 else "")
        words = ["objdump", "-d", "-C", "--no-show-raw-insn", arguments[1]]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, errors="replace", check=False)
    except re.error as error:
        sys.exit(f"stalls: '{arguments[2]}' is no regular expression: {error}")
    except FileNotFoundError:
        sys.exit("stalls: objdump is missing (binutils)")
    if done.returncode != 0:
        return 1
    if "file format elf64-x86-64" not in done.stdout:
        sys.exit(f"stalls: {arguments[1]} is not for x86-64")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    function = None
    for stall in find(done.stdout):
        if not wanted.search(stall.function):
            continue
        if stall.function != function:
            function = stall.function
            print(function)
        print("   ", " | ".join(stall.writes), "=>", stall.read)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
