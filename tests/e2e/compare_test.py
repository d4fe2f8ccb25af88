#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""assay compare on runs that were really made: the same twice, another instruction set, a faulty target, other cases."""
import json
import os
import subprocess
import unittest

import e2e
from e2e import SMALL, TINY

LONG = "g1:gemm:m=1,n=512,k=544"  # the order of its sums depends on the vector length


class Compare(e2e.EndToEnd):
    def change(self, out, change):
        """Rewrites the records of a run."""
        records = self.records(out)
        for record in records:
            change(record)
        (self.folder / out / "run.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")

    def test_the_same_run_twice_has_no_difference(self):
        for out in ("a", "b"):
            self.assert_code(self.run_cases(["eigen", "sim"], [TINY, SMALL, LONG], out=out), 0)
        self.assertNotEqual([r["execute_ms"] for r in self.records("a")], [r["execute_ms"] for r in self.records("b")])
        got = self.assay("compare", "a", "b")
        self.assert_code(got, 0)
        self.assertEqual(got.out, "a -> b\nSAME: 6 results with equal verdicts, bits and algorithms; the same conditions\n")

    @unittest.skipUnless(e2e.system_library("openblas"), "this machine has no openblas library")
    def test_another_instruction_set_shows_in_bits_and_conditions(self):
        for core in ("Haswell", "Prescott"):
            env = self.environment(OPENBLAS_CORETYPE=core)
            self.assert_code(self.run_cases(["eigen", "openblas"], [TINY, LONG], out=core, env=env), 0)
        got = self.assay("compare", "Haswell", "Prescott")
        self.assert_code(got, 1)
        lines = got.out.splitlines()
        self.assertEqual(lines[1], f"output     gemm fp32 on openblas: other bits in 1 of 2 results, first {LONG}")
        self.assertEqual(lines[2], "condition  library of openblas: core: Haswell -> Prescott in 2 results")
        self.assertEqual(lines[3], "condition  OPENBLAS_CORETYPE: Haswell -> Prescott")
        self.assertRegex(got.last, r"^DIFFERENT: of 4 results 0 another verdict, 1 other bits, 0 another algorithm; 2 other conditions\. Next: ")
        again = self.shell(e2e.next_command(got))
        self.assert_code(again, 0)
        self.assertRegex(again.last, r"^PASS: 1 result")

    def test_a_target_that_became_faulty_leads_the_list_and_the_next_command_shows_it(self):
        self.assert_code(self.run_cases(["eigen"], [SMALL, TINY], out="a"), 0)
        self.assert_code(self.run_cases(["eigen", "planted:zero_element"], [SMALL, TINY], out="b"), 1)
        # The planted fault under the name that the first run has: what a broken new version of a library leaves behind.
        records = [r for r in self.records("b") if r["target"] == "planted"]
        for record in records:
            record.update(target="eigen", variant="")
        (self.folder / "b" / "run.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        got = self.assay("compare", "a", "b")
        self.assert_code(got, 1)
        self.assertRegex(got.out.splitlines()[1], r"^verdict    gemm fp32 on eigen: pass -> fail WRONG in \d of 2 results, first g1:gemm:")
        self.assertRegex(got.out.splitlines()[2], r"elements.*; other bits$")
        self.assertIn(". Next: assay run --target eigen", got.last)
        back = self.assay("compare", "b", "a")
        self.assert_code(back, 1)
        self.assertIn("fail WRONG -> pass", back.out.splitlines()[1])

    def test_the_exit_code_does_not_depend_on_a_reader_that_goes_away(self):
        self.assert_code(self.run_cases(["eigen"], [TINY], out="a"), 0)
        self.assert_code(self.run_cases(["eigen"], [TINY], out="b"), 0)
        self.change("b", lambda record: record.update(output_digest="0" * 32))
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as gone:
            got = subprocess.run([e2e.ASSAY, "compare", "a", "b"], cwd=self.folder, stdout=gone, stderr=subprocess.PIPE, text=True)
        self.assertEqual((got.returncode, got.stderr), (1, ""))

    def test_fewer_results_or_a_run_broken_off_are_not_the_same(self):
        self.assert_code(self.run_cases(["eigen"], [TINY, SMALL], out="a"), 0)
        self.assert_code(self.run_cases(["eigen"], [TINY], out="b"), 0)
        got = self.assay("compare", "a", "b")
        self.assert_code(got, 3)
        self.assertIn(f"only in a: 1 result, first gemm fp32 on eigen, {SMALL}\n", got.out)
        self.assertRegex(got.last, r"^SAME AS FAR AS COMPARED: 1 result ")
        self.assert_code(self.assay("compare", "b", "b"), 0)
        (self.folder / "b" / "report.md").unlink()
        self.assert_code(self.assay("compare", "b", "b"), 3)

    def test_other_inputs_other_targets_and_folders_that_are_no_runs_are_refused(self):
        self.assert_code(self.run_cases(["eigen"], [TINY], out="a"), 0)
        self.assert_code(self.run_cases(["sim"], [TINY], out="other"), 0)
        self.assert_code(self.run_cases(["eigen"], [TINY], out="b"), 0)
        for arguments, words in ((("a", "other"), ("nothing to compare", "eigen", "sim")), (("a", "nowhere"), ("no record file",))):
            got = self.assay("compare", *arguments)
            self.assert_code(got, 2)
            self.assert_one_sentence(got, *words)
        self.change("b", lambda record: record.update(input_digest="0" * 32))
        got = self.assay("compare", "a", "b")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "inputs", TINY, "one version of assay")
        self.assertEqual(got.out, "")
        self.change("b", lambda record: record.update(schema="2.0"))
        got = self.assay("compare", "a", "b")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "newer Assay")

    def test_runs_of_an_earlier_minor_version_are_read(self):
        self.assert_code(self.run_cases(["eigen"], [TINY], out="a"), 0)
        self.assert_code(self.run_cases(["eigen"], [TINY], out="b"), 0)

        def older(record):
            record["schema"] = "1.0"
            for field in ("plan", "known_defect", "waived", "tensors"):
                del record[field]
        self.change("b", older)
        self.assert_code(self.assay("compare", "a", "b"), 0)


if __name__ == "__main__":
    e2e.main()
