#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""assay fingerprint: models are recognised as themselves, planted faults as what they are, a bad call is one sentence."""
import json

import e2e


class Fingerprint(e2e.EndToEnd):
    def prints(self, *targets):
        got = self.assay("fingerprint", "--json", *(a for t in targets for a in ("--target", t)))
        self.assert_code(got, 0)
        return {(f["variant"], f["formats"]): f for f in json.loads(got.out)}

    def test_each_model_is_recognised_and_told_from_the_others(self):
        expected = {("pairwise", "fp32"): ["pairwise"], ("lanes32", "fp32"): ["lanes32"], ("h100_tf32_rne", "fp32"): ["h100_tf32_rne"],
                    ("v100", "fp16>fp32"): ["v100"], ("a100", "bf16>fp32"): ["a100"], ("h100", "bf16>fp32"): ["h100"]}
        seen = self.prints(*(f"model:{name}" for name, _ in expected))
        for key, like in expected.items():
            with self.subTest(model=key):
                f = seen[key]
                self.assertIn(like[0], f["like"])
                self.assertTrue(all(like[0] in o["like"] and o["columns_alike"] for o in f["orders"]), f["orders"])
                self.assertEqual([m for m, share in f["bits_like"].items() if share == 1], like)
                self.assertTrue(f["repeats"])
        self.assertEqual(seen["h100_tf32_rne", "fp32"]["operands_like"], ["tf32, rounded to nearest even"])
        self.assertEqual(seen["pairwise", "fp32"]["operands_like"], ["fp32"])
        self.assertLess(seen["h100", "bf16>fp32"]["bias"], -0.5)
        self.assertLess(abs(seen["pairwise", "fp32"]["bias"]), 0.1)
        self.assertIn("unsupported", seen["v100", "bf16>fp32"]["refused"])

    def test_planted_faults_are_told_from_what_is_declared(self):
        seen = self.prints("planted:operands_tf32_truncated", "planted:operands_bf16", "planted:accumulator_bf16_every_32")
        self.assertEqual(seen["operands_tf32_truncated", "fp32"]["operands_like"], ["tf32, rounded toward zero"])
        self.assertEqual(seen["operands_bf16", "fp32"]["operands_like"], ["bf16"])
        self.assertEqual(seen["accumulator_bf16_every_32", "bf16>fp32"]["zero_bits"], 16)
        self.assertEqual(seen["accumulator_bf16_every_32", "bf16>fp32"]["like"], [])

    def test_for_people_it_names_target_format_and_model(self):
        got = self.assay("fingerprint", "--target", "model:a100")
        self.assert_code(got, 0)
        self.assertIn("model:a100 bf16>fp32\n", got.out)
        self.assertIn("sums      as a100\n", got.out)

    def test_where_nothing_gives_a_fingerprint_it_says_so(self):
        got = self.assay("fingerprint", "--target", "planted:rstd_unwritten")
        self.assert_code(got, 2)
        self.assertEqual(got.err.count("\n"), 1, got.err)


if __name__ == "__main__":
    e2e.main()
