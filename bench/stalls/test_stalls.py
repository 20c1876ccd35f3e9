# SPDX-License-Identifier: BSD-2-Clause
"""Tests what counts as a read of more than was just written."""

import unittest

import stalls


def found(*instructions):
    lines = [f"  {0x1000 + i:x}:\t{text}" for i, text in enumerate(instructions)]
    return list(stalls.find("0000000000001000 <f(int)>:\n" + "\n".join(lines)))


class Finding(unittest.TestCase):
    def test_parts_that_are_read_as_one(self):
        (stall,) = found("mov    %r14,0x100(%rsp)", "mov    %al,0x108(%rsp)", "movdqa 0x100(%rsp),%xmm5")
        self.assertEqual(stall.function, "f(int)")
        self.assertEqual(len(stall.writes), 2)
        self.assertIn("movdqa", stall.read)

    def test_a_byte_that_is_read_as_a_word(self):
        self.assertEqual(len(found("mov    %cl,(%rsp)", "mov    (%rsp),%r8d")), 1)
        self.assertEqual(len(found("movb   $0x1,0x48(%rsp)", "mov    0x48(%rsp),%eax")), 1)

    def test_what_one_write_holds_is_handed_on(self):
        self.assertEqual(found("movaps %xmm0,0x10(%rsp)", "mov    0x18(%rsp),%rax"), [])
        self.assertEqual(found("mov    %al,0x10(%rsp)", "mov    %rax,0x10(%rsp)", "mov    0x10(%rsp),%rax"), [])
        self.assertEqual(found("mov    %al,0x10(%rsp)", "movzbl 0x10(%rsp),%eax"), [])

    def test_other_places_are_other_places(self):
        self.assertEqual(found("mov    %al,0x10(%rsp)", "mov    0x11(%rsp),%rax"), [])
        self.assertEqual(found("mov    %al,0x10(%rsp)", "mov    0x10(%rbp),%rax"), [])
        self.assertEqual(found("mov    %al,0x10(%rbx)", "mov    %rcx,%rbx", "mov    0x10(%rbx),%rax"), [])

    def test_nobody_comes_past_a_jump(self):
        for way in ("jmp    1020 <f(int)+0x20>", "ret"):
            self.assertEqual(found("mov    %cl,(%rsp)", way, "mov    (%rsp),%r8d"), [])
        self.assertEqual(len(found("mov    %cl,(%rsp)", "jne    1020 <f(int)+0x20>", "mov    (%rsp),%r8d")), 1)

    def test_what_was_long_ago_is_out(self):
        others = [f"mov    %rax,{8 * i:#x}(%rbp)" for i in range(stalls.NEAR)]
        self.assertEqual(found("mov    %cl,(%rsp)", *others, "mov    (%rsp),%r8d"), [])
        self.assertEqual(len(found("mov    %cl,(%rsp)", *others[1:], "mov    (%rsp),%r8d")), 1)


if __name__ == "__main__":
    unittest.main()
