#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run --random: the same seed gives the same cases, a planted fault is met, what it cannot be combined with is refused."""
import e2e


class Random(e2e.EndToEnd):
    def draw(self, out, seed, *more, targets=("eigen",), minutes="0.05"):
        return self.assay("run", "--random", "--minutes", minutes, "--seed", seed, *(a for t in targets for a in ("--target", t)), "--ci",
                          "--out", out, *more)

    def test_a_seed_gives_the_same_cases_again_and_another_seed_others(self):
        cases = {}
        for out, seed in (("a", 3), ("b", 3), ("c", 4)):
            got = self.draw(out, seed)
            self.assert_code(got, 0)
            self.assertIn(f"random cases 0 to {len(self.records(out)) - 1} of seed {seed}", got.out)
            self.assert_valid(out)
            cases[out] = [r["case"] for r in self.records(out)]
        both = min(len(cases["a"]), len(cases["b"]))
        self.assertGreater(both, 0)
        self.assertEqual(cases["a"][:both], cases["b"][:both])
        self.assertFalse(set(cases["a"]) & set(cases["c"]))

    def test_a_planted_fault_is_met_and_its_case_fails_again(self):
        got = self.draw("run", 1, "--op", "gemm", targets=("planted:zero_element",))
        self.assert_code(got, 1)
        failed = next(r for r in self.records() if r["verdict"] == "fail")
        again = self.run_cases(["planted:zero_element"], [failed["case"]], out="again")
        self.assert_code(again, 1)

    def test_a_killed_worker_costs_its_case_alone(self):
        got = self.draw("run", 1, "--op", "gemm", targets=("planted:sigill", "eigen"))
        self.assert_code(got, 1)
        verdicts = {t: {(r["verdict"], r["label"]) for r in self.records() if r["target"] == t} for t in ("planted", "eigen")}
        self.assertIn(("fault", ""), verdicts["planted"])
        self.assertLessEqual({v for v, label in verdicts["eigen"] if label != "MISTRUSTED"}, {"pass", "unsupported"})

    def test_each_library_takes_one_variant_per_case(self):
        got = self.draw("run", 5, targets=("eigen", "model:*"), minutes="0.05")
        self.assert_code(got, 0)
        self.assertGreater(len({r["variant"] for r in self.records() if r["target"] == "model"}), 3)

    def test_what_does_not_go_together_is_refused(self):
        for options in (("--case", "g1:gemm:m=1,n=1,k=1"), ("--level", "quick"), ("--tag", "T01"), ("--resume",), ("--op", "gemmm"),
                        ("--minutes", "0"), ("--seed", "x")):
            with self.subTest(options=options):
                got = self.assay("run", "--random", "--target", "eigen", *options)
                self.assert_code(got, 2)
                self.assertEqual(got.err.count("\n"), 1, got.err)
        got = self.assay("run", "--minutes", "1")
        self.assert_code(got, 2)
        self.assertIn("--random", got.err)


if __name__ == "__main__":
    e2e.main()
