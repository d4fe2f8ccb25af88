#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles and --require: each exit code, who wins over whom, silence, and what the record and the reports say."""
import pathlib

import e2e

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "profiles.md"
GOOD, BAD = "g1:gemm:m=4,n=4,k=4,fill=integer", "g1:gemm:m=9,n=9,k=9,fill=integer"
FAULT = "planted:zero_element"
WAIVER = '[[waiver]]\ntarget = "planted:*"\nwhen = "op=gemm"\nreason = "planted on purpose"\nexpires = {}\n'
LATER, GONE = "2999-01-01", "2020-01-01"


class Profiles(e2e.EndToEnd):
    def gate(self, text, *more, targets=("eigen",), cases=(GOOD,), out="run"):
        (self.folder / "gate.toml").write_text("profile = 1\n" + text, encoding="utf-8")
        return self.run_cases(targets, cases, "--profile", self.folder / "gate.toml", *more, out=out)

    def test_a_waived_failure_stays_a_failure_in_the_record_and_does_not_fail_the_run(self):
        got = self.gate(WAIVER.format(LATER), targets=("eigen", FAULT))
        self.assert_code(got, 0)
        self.assert_valid()
        record = next(r for r in self.records() if r["target"] == "planted")
        self.assertEqual((record["verdict"], record["waived"]), ("fail", f"until {LATER}: planted on purpose"))
        self.assertIn("1 waived by the profile", got.last)
        self.assertIn("planted on purpose", (self.folder / "run" / "report.md").read_text(encoding="utf-8"))
        junit = self.assay("report", "run", "--format", "junit")
        self.assertIn(f'<skipped message="waived until {LATER}: planted on purpose', junit.out)
        self.assertIn('failures="0"', junit.out)
        quiet = self.gate(WAIVER.format(LATER), "--quiet", targets=("eigen", FAULT), out="quiet")
        self.assert_code(quiet, 0)
        self.assertEqual((quiet.out, quiet.err), ("", ""))

    def test_an_expired_waiver_excuses_nothing_and_says_so(self):
        got = self.gate(WAIVER.format(GONE), targets=("eigen", FAULT))
        self.assert_code(got, 1)
        self.assertIn(f"has expired on {GONE}", got.err)

    def test_a_resumed_run_follows_the_waivers_of_the_day(self):
        for waiver, code in ((WAIVER.format(LATER), 0), (WAIVER.format(GONE), 1), (WAIVER.format(LATER), 0)):
            more = ["--resume"] if (self.folder / "run").exists() else []
            got = self.gate(waiver, *more, targets=("eigen", FAULT))
            self.assert_code(got, code)
            self.assertNotIn("excused nothing", got.err)
            junit = self.assay("report", "run", "--format", "junit")
            self.assertIn(f'failures="{code}"', junit.out)
        self.assertEqual(len(self.records()), 4)  # two results, one of them judged three times

    def test_a_waived_failure_is_no_difference_to_the_same_failure(self):
        self.assert_code(self.gate("", targets=("eigen", FAULT), out="a"), 1)
        self.assert_code(self.gate(WAIVER.format(LATER), targets=("eigen", FAULT), out="b"), 0)
        got = self.assay("compare", "a", "b")
        self.assert_code(got, 0)
        self.assertIn("gate.toml", got.out)  # the profile is a condition that differs

    def test_what_is_required_must_have_given_a_result(self):
        for require, code, words in (("eigen", 0, ""), ("planted:*", 3, "this run has no such target"), ("gpu", 3, "required, and without a result: gpu")):
            with self.subTest(require=require):
                got = self.run_cases(["eigen"], [GOOD], "--require", require, out=require.strip("*:"))
                self.assert_code(got, code)
                self.assertIn(words, got.err)
                self.assertEqual(f"no result of the required {require}" in got.last, code == 3)

    def test_other_conditions_than_the_promised_are_exit_code_5_and_named(self):
        got = self.gate('[environment.system]\nkernel = "0.0.1"\n')
        self.assert_code(got, 5)
        self.assert_one_sentence(got, "the profile promises system.kernel = '0.0.1', this run has '")
        self.assertIn("the profile promises system.kernel = '0.0.1'", self.report())
        self.assertRegex(self.environment_of()["assay"]["profile"], r"^.*gate\.toml \(sha256 [0-9a-f]{16}\)$")
        self.assert_code(self.gate('[environment.system]\nkernel = "*"\n', out="right"), 0)

    def test_failures_come_before_what_is_missing_and_that_before_other_conditions(self):
        other = 'require = ["gpu"]\n[environment.system]\nkernel = "0.0.1"\n'
        self.assert_code(self.gate(other, targets=("eigen", FAULT), out="all"), 1)
        self.assert_code(self.gate(other, out="missing"), 3)
        self.assert_code(self.gate(other, targets=("planted:no_such*", "eigen"), out="none"), 2)

    def test_the_command_line_adds_to_a_profile_and_its_level_wins(self):
        text = f'[cases]\nid = ["{BAD}"]\n[targets]\ntarget = ["eigen"]\n'
        (self.folder / "gate.toml").write_text("profile = 1\n" + text, encoding="utf-8")
        got = self.assay("run", "--profile", "gate.toml", "--case", GOOD, "--out", "run")
        self.assert_code(got, 0)
        self.assertEqual({(r["case"], r["target"]) for r in self.records()}, {(GOOD, "eigen"), (BAD, "eigen")})

    def test_a_broken_profile_is_refused_before_anything_runs(self):
        got = self.gate("requires = []\n")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "gate.toml line 2", "requires is unknown", "require")
        self.assertFalse((self.folder / "run").exists())
        got = self.assay("run", "--profile", "no-such")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "no-such", "node, speech")

    def test_the_example_of_the_page_is_right_but_for_a_key_added_to_its_end(self):
        example = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
        (self.folder / "page.toml").write_text(example + "nonsense = 1\n", encoding="utf-8")
        got = self.assay("run", "--profile", "page.toml")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, f"page.toml line {example.count(chr(10)) + 1}", "waiver.nonsense is unknown")

    def test_those_built_in_are_listed(self):
        got = self.assay("list", "profiles")
        self.assert_code(got, 0)
        self.assertIn("# node\n", got.out)


if __name__ == "__main__":
    e2e.main()
