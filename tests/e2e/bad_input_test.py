#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input: one sentence with what, where, what was expected and what to do; exit 2; nothing begun and nothing lost."""
import os

import e2e
from e2e import SMALL, TINY


class BadCases(e2e.EndToEnd):
    def test_an_id_that_cannot_be_read_is_refused_by_name(self):
        for case, word in (("bogus", "g1:"), ("", "g1:"), ("g1:gemm", "second ':'"), ("g1:gemm:m=8,n=8", "required key k"),
                           ("g1:gemm:m=8,n=8,k=8,", "','"), ("g1:gemm:m=8,n=8,k=8,m=9", "twice"), ("g1:gemm:m=8,n=8,k=8,seed", "'='"),
                           ("g1:gemm:m=8,n=8,k=8,zz=3", "zz"), ("g1:gemm:m=8,n=8,k=8,fil=ones", "'fill'"),
                           ("g1:gemm:m=8,n=8,k=8,fill=one", "'ones'"), ("g1:gemm:m=-8,n=8,k=8", "from 0"),
                           ("g1:gemm:m=8,n=8,k=8,alpha=nan", "alpha"), ("g1:gemm:m=99999999999999999999,n=8,k=8", "from 0"),
                           ("g1:gemm:m=8, n=8,k=8", "0x20"), ("g2:gemm:m=8,n=8,k=8", "newer Assay"), ("g1:conv:m=8", "gemm"),
                           ("g1:gemm:m={1,2},n=8,k=8", "{1"), ("g1:gemm:" + "m=8," * 5000, "long")):
            with self.subTest(case=case[:60]):
                self.assert_refused(self.run_cases(["eigen"], [case]), word)

    def test_an_impossible_shape_or_format_is_refused(self):
        for case, word in (("g1:gemm:m=8,n=8,k=8,in=f32,out=bf16", "bf16"), ("g1:gemm:m=16777216,n=16777216,k=16777216", "2^40"),
                           ("g1:gemm:m=16777217,n=8,k=8", "16777216")):
            with self.subTest(case=case):
                self.assert_refused(self.run_cases(["eigen"], [case]), word)

    def test_a_case_that_needs_more_memory_than_there_is_is_said_before_any_is_taken(self):
        for case in ("g1:gemm:m=1048576,n=1048576,k=1", "g1:gemm:m=1000000,n=1000,k=1000000"):
            with self.subTest(case=case):
                got = self.run_cases(["eigen", "sim"], [case], out=case[8:17], timeout=20)
                self.assert_code(got, 2)
                self.assert_one_sentence(got, "GiB", "smaller", case)

    def test_a_case_too_big_for_memory_costs_nothing_else_of_the_run(self):
        got = self.run_cases(["eigen"], [TINY, "g1:gemm:m=1048576,n=1048576,k=1", SMALL])
        self.assert_code(got, 3)
        self.assertEqual([r["verdict"] for r in self.records()], ["pass", "unavailable", "pass"])
        self.assert_one_sentence(got, "GiB")
        self.assertIn("GiB", self.report())


class BadPlans(e2e.EndToEnd):
    def test_a_plan_for_something_unknown_is_refused(self):
        built = "no cuDNN part" not in str(self.assay("plan", "--arch", "sm_30"))
        for arguments, words in ((["plan"], ["--arch", "rtx-5090"]), (["plan", "--arch", "sm_30"], ["sm_30", "rtx-5090"]),
                                 (["plan", "--arch", __file__], ["JSON"]),
                                 (["plan", "--arch", "sm_120", "--cudnn", "/nosuch"], ["/nosuch"])):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.assay(*arguments), *(words if built else ["no cuDNN part"]))

    def test_two_files_that_are_no_plans_are_not_compared(self):
        for file, word in (("/nosuch", "cannot read"), (__file__, "is not JSON")):
            with self.subTest(file=file):
                self.assert_refused(self.assay("plan", "diff", file, file), word)


class BadChoices(e2e.EndToEnd):
    def test_unknown_names_are_refused_with_what_there_is(self):
        for arguments, words in ((["--target", "nosuch", "--case", TINY], ["nosuch", "eigen", "assay list targets"]),
                                 (["--op", "conv"], ["conv", "gemm"]), (["--level", "huge"], ["huge", "standard"]),
                                 (["--tag", "nosuch"], ["nosuch", "assay list cases"]), (["--bogus"], ["--bogus", "--help"]),
                                 (["--deadline", "0", "--case", TINY], ["deadline"]), (["--deadline", "x"], ["deadline"]),
                                 (["--libraries", "nosuch"], ["nosuch", "NAME=PATH"]), (["--libraries", ""], ["NAME=PATH"]),
                                 (["--libraries", "atlas=/x.so"], ["atlas", "openblas"]), (["--libraries", "cuda=/x.so"], ["/x.so"])):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.assay("run", "--out", "run", *arguments), *words)

    def test_no_command_and_an_unknown_one_are_refused(self):
        for arguments in ([], ["runn"], ["list"], ["list", "things"]):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.assay(*arguments), "--help")

    def test_a_case_list_that_cannot_be_used_is_refused_with_file_and_line(self):
        (self.folder / "bad.cases").write_text(f"# mine\n{TINY}\ng1:gemm:m=8,n=8 | short\n")
        (self.folder / "open.cases").write_text("g1:gemm:m={1,2,n=8,k=8\n")
        (self.folder / "section.cases").write_text("[fast]\n")
        (self.folder / "binary.cases").write_bytes(bytes(range(256)))
        (self.folder / "huge.cases").write_text("g1:gemm:m={" + ",".join("123456789") + "},n=8," + ",".join(
            f"{k}={{{','.join('0123456789')}}}" for k in ("k", "seed", "pada", "padb", "padc", "off", "gap")) + "\n")
        for name, words in (("bad.cases", ["bad.cases line 3", "required key k"]), ("open.cases", ["open.cases line 1", "'{'"]),
                            ("section.cases", ["section.cases line 1", "'fast'"]), ("binary.cases", ["binary.cases line 1"]),
                            ("huge.cases", ["huge.cases line 1", "smaller sets"]), ("missing.cases", ["missing.cases"]), (".", [" ."])):
            with self.subTest(list=name):
                self.assert_refused(self.assay("run", "--out", "run", "--target", "eigen", "--cases", name), *words)


class BadFolders(e2e.EndToEnd):
    def test_a_file_in_the_place_of_the_folder_is_refused_and_left_alone(self):
        (self.folder / "file").write_text("mine")
        for out in ("file", "file/below"):
            got = self.run_cases(["eigen"], [TINY], out=out)
            self.assert_code(got, 2)
            self.assert_one_sentence(got, "file", "--out")
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_a_folder_that_cannot_be_made_or_written_is_refused(self):
        closed = ["/proc/assay-run"]
        if os.geteuid() != 0:
            (self.folder / "closed").mkdir(mode=0o500)
            closed += ["closed", "closed/run"]
        for out in closed:
            got = self.run_cases(["eigen"], [TINY], out=out)
            self.assert_code(got, 2)
            self.assert_one_sentence(got, out, "--out")

    def test_resume_without_a_run_is_refused(self):
        for arguments in (["--resume"], ["--resume", "--out", "run"]):
            got = self.assay("run", "--target", "eigen", "--case", TINY, *arguments)
            self.assert_code(got, 2)
            self.assert_one_sentence(got, "resume")
        self.assertFalse((self.folder / "run").exists(), "a refused resume leaves no empty folder behind")


if __name__ == "__main__":
    e2e.main()
