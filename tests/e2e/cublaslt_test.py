#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuBLASLt from discovery to the verdict, on the doubles of tests/sim: a fault bound to one algorithm of one version at one shape
is found there and nowhere else."""
import json
import os
import unittest

import e2e

FP32 = "g1:gemm:m=33,n=40,k=64,fill=integer"
EXACT = "g1:gemm:m=24,n=16,k=96,in=bf16,out=f32,fill=integer"
LONG = "g1:gemm:m=24,n=16,k=600,in=bf16"
OTHER = "g1:gemm:m=24,n=32,k=96,in=bf16,out=f32,fill=integer"
BIAS = "g1:gemm:m=33,n=40,k=64,order=row,bias=1,act=relu,fill=integer"
FP8 = "g1:gemm:m=16,n=32,k=64,ta=t,in=e4m3,out=f32,fill=integer"
NO_C = "g1:gemm:m=8,n=8,k=8,fill=integer"
OURS = ("CUDA_", "CUBLAS", "NVIDIA_", "ASSAY_SIM_")


class Lt(e2e.EndToEnd):
    def environment(self, **variables):
        env = {k: v for k, v in super().environment().items() if not k.startswith(OURS)}
        return env | variables

    def lt(self, cases, *targets, fault="", out="run", cublaslt=None, **variables):
        sim = e2e.FAKES.parent / "tests" / "sim"
        libraries = ["--libraries", f"cuda={sim / 'libcuda.so.1'}",
                     "--libraries", f"cublasLt={cublaslt or sim / 'cublaslt' / 'libcublasLt.so.13'}"]
        env = self.environment(**variables)
        if fault:
            env["ASSAY_SIM_CUBLASLT_FAULT"] = fault
        return self.run_cases([f"cublaslt:{t}" for t in targets or ["heuristic"]], cases, *libraries, out=out, env=env)

    def wrong(self, out="run"):
        """Algorithms by case and variant of everything that did not pass and is no refusal."""
        return {(r["case"].split(",seed=")[0], r["variant"]): r for r in self.records(out)
                if r["verdict"] not in ("pass", "unsupported")}

    def census(self, out="run"):
        return (self.folder / out / "algorithms.jsonl").read_text(encoding="utf-8")


class Quick(Lt):
    def test_every_algorithm_of_a_correct_library_passes_and_is_named(self):
        log = self.folder / "log"
        self.assert_code(self.lt([EXACT, LONG, BIAS], "*", ASSAY_SIM_LOG=str(log)), 0)
        self.assert_valid()
        variants = {r["variant"] for r in self.records()}
        alone = [v for v in variants if not v.startswith(("algorithm=", "rank="))]
        contexts = {line.split()[0] for line in log.read_text(encoding="utf-8").splitlines() if "cuCtxCreate" in line or "cuDevicePrimaryCtxRetain" in line}
        self.assertGreater(len(variants), len(alone) + 40)
        self.assertLessEqual(len(contexts), len(alone) + 4, "all algorithms share one context")
        passed = [r for r in self.records() if r["verdict"] == "pass"]
        algorithms = {r["algorithm"] for r in passed if r["case"].startswith(LONG)}
        self.assertGreater(len(algorithms), 20)
        for r in passed:
            self.assertRegex(r["algorithm"], r"^id=\d+ tile=\d+ stages=\d+ splitk=\d+ reduction=\d swizzle=\d custom=\d inner=0 "
                                             r"cluster=\d+ workspace=\d+$")
            plan = json.loads(r["plan"])
            self.assertIn(f"id={plan['id']} tile={plan['tile']} ", r["algorithm"])
            self.assertTrue(r["algorithm"].endswith(f" workspace={plan['workspace']}"))
            self.assertEqual(r["library"]["version"], "cuBLASLt 13.1.0 for CUDA 13.0")
            self.assertIn("simulated", r["library"]["core"])
        beyond = [r for r in self.records() if r["verdict"] == "unsupported" and r["variant"].startswith("algorithm=")]
        self.assertTrue(beyond)
        for r in beyond:
            self.assertRegex(r["reason"], r"offers \d+ algorithms for this problem, so there is no algorithm=\d+")

    def test_a_legal_split_in_the_output_type_is_declared_and_passes_the_same_bits_undeclared_fail(self):
        self.assert_code(self.lt([LONG], "algorithm=*", "heuristic"), 0)
        for r in self.records():
            if "reduction=4" in r["algorithm"]:
                self.assertRegex(r["arithmetic"], r"split-K partials in bf16")
        exact = LONG + ",fill=integer"
        got = self.lt([exact], "heuristic", "algorithm=*", fault="narrow_slice:reduction=2", out="narrow")
        self.assert_code(got, 1)
        self.assertTrue(self.wrong("narrow"))
        for r in self.wrong("narrow").values():
            self.assertIn("reduction=2", r["algorithm"])
            self.assertIn("split-K partials in fp32", r["arithmetic"])

    def test_a_fault_of_one_algorithm_of_one_version_at_one_shape_is_found_there_and_nowhere_else(self):
        fault = "k_tail:id=66:swizzle=1:version=130100:m=24:n=16"
        self.assert_code(self.lt([EXACT, OTHER], "*", fault=fault), 1)
        self.assert_valid()
        wrong = self.wrong()
        self.assertEqual({case for case, _ in wrong}, {EXACT})
        self.assertEqual({r["algorithm"].split(" ")[0] for r in wrong.values()}, {"id=66"})
        for r in self.records():
            spoilt = "id=66 " in r["algorithm"] and "swizzle=1" in r["algorithm"] and r["case"].split(",seed=")[0] == EXACT
            self.assertEqual(r["verdict"] == "fail", spoilt, r["algorithm"])
        self.assert_code(self.lt([EXACT, OTHER], "*", fault=fault, out="newer", ASSAY_SIM_CUBLASLT_VERSION="130200"), 0)
        self.assertEqual(self.wrong("newer"), {})

    def test_the_census_of_two_builds_differs_where_they_choose_otherwise(self):
        self.lt([EXACT, LONG, FP32], "heuristic", "workspace=0")
        self.lt([FP32, LONG, EXACT], "workspace=0", "heuristic", out="again", ASSAY_SIM_CUBLASLT_VERSION="130200")
        self.assertEqual(self.census(), self.census("again"))
        lines = [json.loads(line) for line in self.census().splitlines()]
        self.assertEqual(len(lines), 6)
        self.assertEqual(lines, sorted(lines, key=lambda line: (line["case"], line["target"])))
        chosen = {(line["case"].split(",seed=")[0], line["target"]): line for line in lines}
        self.assertIn("splitk=4", chosen[LONG, "cublaslt:heuristic"]["algorithm"])
        self.assertGreater(chosen[LONG, "cublaslt:heuristic"]["workspace"], 0)
        self.assertIn("splitk=1", chosen[LONG, "cublaslt:workspace=0"]["algorithm"])

    def test_a_workspace_cap_changes_the_choice_and_is_kept_to(self):
        caps = {"workspace=0": 0, "workspace=1MiB": 1 << 20, "workspace=4MiB": 4 << 20, "heuristic": 32 << 20, "workspace=256MiB": 256 << 20}
        # Partial sums in fp32 take 2 MiB here, in bf16 1 MiB.
        self.assert_code(self.lt(["g1:gemm:m=128,n=128,k=256,batch=8,in=bf16"], *caps), 0)
        plans = {r["variant"]: json.loads(r["plan"]) for r in self.records()}
        self.assertEqual(plans.keys(), caps.keys())
        for variant, cap in caps.items():
            self.assertLessEqual(plans[variant]["workspace"], cap, variant)
        self.assertEqual({v: p["workspace"] >> 20 for v, p in plans.items()},
                         {"workspace=0": 0, "workspace=1MiB": 1, "workspace=4MiB": 2, "heuristic": 2, "workspace=256MiB": 2})

    def test_a_library_that_does_not_start_is_unavailable_in_one_sentence(self):
        real = next((p for p in ("/usr/local/cuda/lib64/libcublasLt.so.13", "/usr/local/cuda/lib/libcublasLt.so.13")
                     if os.path.exists(p)), None)
        if real is None:
            self.skipTest("no real cuBLASLt here")
        # Its own CUDA runtime finds no device behind the simulated driver.
        self.assert_code(self.lt([FP32], cublaslt=os.path.realpath(real)), 2)
        (record,) = self.records()
        self.assertEqual(record["verdict"], "unavailable", record["reason"])
        self.assertRegex(record["reason"], r"starting cuBLASLt: CUBLAS_STATUS_NOT_INITIALIZED \(1\)")


class All(Lt):
    FAULTS = {  # fault: (case, an algorithm that shows it)
        "k_tail:id=1": (FP32, "id=1 "),
        "tf32:id=6": ("g1:gemm:m=64,n=48,k=512,fill=reveal", "id=6 "),
        "lost_slice:splitk=3": (FP32, "splitk=3"),
        "narrow_slice:reduction=2": (LONG + ",fill=integer", "reduction=2"),
        "read_c:tile=15": (NO_C, "tile=15"),
        "no_bias:id=6:epilogue=6": (BIAS, "id=6 "),
        "edge_row:custom=1": (EXACT, "custom=1"),
        "overrun:id=1:swizzle=1": (FP32, "swizzle=1"),
        "greedy:splitk=2": (FP32, "splitk=2"),
        "refuse:id=1:opa=n": (FP32, "id=1 "),
    }

    def test_every_fault_shows_in_its_algorithm_and_only_there(self):
        for fault, (case, algorithm) in self.FAULTS.items():
            with self.subTest(fault=fault):
                out = fault.replace(":", "-")
                self.assert_code(self.lt([case], "algorithm=*", fault=fault, out=out), 1)
                wrong = self.wrong(out)
                self.assertTrue(wrong)
                for r in self.records(out):
                    if r["verdict"] != "unsupported":
                        self.assertEqual(r["verdict"] != "pass", algorithm in r["algorithm"], (r["algorithm"], r["reason"]))

    def test_a_scale_of_fp8_operands_that_is_not_applied_shows_where_one_is_given(self):
        self.assert_code(self.lt([FP8], "heuristic", "scales", "fast_accum", fault="no_scale"), 1)
        self.assertEqual({v for _, v in self.wrong()}, {"scales"})
        self.assertEqual({r["verdict"] for r in self.records() if r["variant"] != "scales"}, {"pass"})

    def test_long_sums_in_slices_pass_in_every_algorithm(self):
        cases = [f"g1:gemm:m=32,n=48,k=1024,in={f},fill={fill}" for f in ("bf16", "f16") for fill in ("two_level", "heavy")]
        self.assert_code(self.lt(cases, "*"), 0)
        schemes = {r["algorithm"].split("reduction=")[1][0] for r in self.records() if r["verdict"] == "pass"}
        self.assertEqual(schemes, {"0", "1", "2", "4"})
        self.assertEqual(self.wrong(), {})

    def test_the_quick_suite_passes_in_every_mode(self):
        sim = e2e.FAKES.parent / "tests" / "sim"
        got = self.assay("run", "--op", "gemm", "--target", "cublaslt:*", "--out", "suite", "--libraries",
                         f"cuda={sim / 'libcuda.so.1'}", "--libraries", f"cublasLt={sim / 'cublaslt' / 'libcublasLt.so.13'}",
                         env=self.environment())
        self.assert_code(got, 0)
        self.assert_valid("suite")
        modes = {r["variant"] for r in self.records("suite") if r["verdict"] == "pass"}
        self.assertGreaterEqual(modes, {"heuristic", "order=row", "workspace=0", "reduction=none", "pedantic", "tf32", "f16acc"})
        self.assertEqual(self.wrong("suite"), {})


if __name__ == "__main__":
    e2e.main()
