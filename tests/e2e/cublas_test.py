#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuBLAS from discovery to the verdict, on the doubles of tests/sim: every planted fault is found, where it is and nowhere else."""
import concurrent.futures
import glob
import os
import pathlib
import unittest

import e2e

FP32 = "g1:gemm:m=33,n=20,k=48,fill=integer"
BF16 = "g1:gemm:m=33,n=20,k=48,in=bf16,out=f32,fill=integer"
REVEAL = "g1:gemm:m=24,n=16,k=64,fill=reveal"
LONG_BF16 = "g1:gemm:m=24,n=16,k=500,in=bf16,out=f32"
BETA = "g1:gemm:m=9,n=7,k=12,beta=1,fill=integer"
NAN = "g1:gemm:m=8,n=6,k=16,fill=nan_one"
SUBNORMAL = "g1:gemm:m=8,n=6,k=16,fill=subnormal"
STRIDED = "g1:gemm:m=9,n=7,k=12,batch=3,gap=3,fill=integer"
POINTERS = "g1:gemm:m=9,n=7,k=12,batch=3,mode=pointers,gap=3,fill=integer"
VECTOR = "g1:gemm:m=1,n=9,k=12,order=row,in=f64,fill=integer"
INT8 = "g1:gemm:m=16,n=20,k=64,in=i8,out=i32,fill=integer"
F16 = "g1:gemm:m=33,n=17,k=64,in=f16"
SMALL = [FP32, BF16, REVEAL, LONG_BF16, BETA, NAN, SUBNORMAL, STRIDED, POINTERS, VECTOR, INT8, F16]
MODES = ["default", "pedantic", "no_reduced", "device_scalars", "workspace=0", "gemv", "tf32", "f16acc", "bf16x9", "fixed_point", "fast16f", "fast16bf"]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
REAL = sorted({os.path.realpath(p) for pattern in ("/usr/local/cuda/lib64/libcublas.so.1[23]",
                                                   str(CACHE / "assay/wheels/nvidia-cublas-cu12-*/lib/libcublas.so.12"))
               for p in glob.glob(pattern)})
OURS = ("CUDA_", "CUBLAS", "NVIDIA_", "ASSAY_SIM_")


class Cublas(e2e.EndToEnd):
    def environment(self, **variables):
        env = {k: v for k, v in super().environment().items() if not k.startswith(OURS)}
        return env | variables

    def cublas(self, cases, *more, fault="", out="run", targets=("cublas*",), library=None, **variables):
        sim = e2e.FAKES.parent / "tests" / "sim"
        libraries = ["--libraries", f"cuda={sim / 'libcuda.so.1'}",
                     "--libraries", f"cublas={library or sim / 'simulated_cublas' / 'libcublas.so.13'}"]
        env = self.environment(**variables)
        if fault:
            env["ASSAY_SIM_CUBLAS_FAULT"] = fault
        return self.run_cases(targets, cases, *libraries, *more, out=out, env=env)

    def together(self, **runs):
        """Several runs at once, by the name of their folder: {out: (cases, options)}."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            started = {out: pool.submit(self.cublas, cases, out=out, **options) for out, (cases, options) in runs.items()}
            return {out: s.result() for out, s in started.items()}

    def found(self, out="run"):
        """What did not pass, by case and mode; refusals are none."""
        return {(r["case"].split(",seed=")[0], r["variant"]): r for r in self.records(out)
                if r["target"] == "cublas" and r["verdict"] not in ("pass", "unsupported")}


class Quick(Cublas):
    def test_every_mode_of_a_correct_library_passes_and_says_what_it_is(self):
        self.assert_code(self.cublas(SMALL), 0)
        self.assert_valid()
        records = [r for r in self.records() if r["target"] == "cublas"]
        self.assertEqual(sorted({r["variant"] for r in records}), sorted(MODES))
        routines = set()
        for r in records:
            self.assertIn(r["verdict"], ("pass", "unsupported"), r["reason"])
            if r["verdict"] == "unsupported":
                continue
            routines.add(r["algorithm"])
            self.assertEqual(r["library"]["version"], "cuBLAS 13.1.0 for CUDA 13.0")
            self.assertIn("simulated", r["library"]["core"])
            self.assertEqual(r["conditions"]["library workspace"], "0" if r["variant"] == "workspace=0" else str(12 << 20))
        self.assertEqual(routines, {"cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasGemmBatchedEx", "cublasDgemv"})
        self.assertEqual({r["variant"] for r in records if r["verdict"] == "pass"}, set(MODES), "each mode has a case it takes")
        (fixed,) = [r for r in records if r["variant"] == "fixed_point" and r["verdict"] == "pass"]
        self.assertRegex(fixed["conditions"]["library mantissa bits"], r"^\d+$")

    def test_a_fault_of_one_version_at_one_shape_is_found_exactly_there(self):
        cases = [FP32, FP32.replace("k=48", "k=47"), FP32.replace("n=20", "n=21"), STRIDED]
        fault = "k_tail:version=120804:m=33:n=20:k=48:compute=68"
        got = self.together(ill=(cases, {"fault": fault, "ASSAY_SIM_CUBLAS_VERSION": "120804"}),
                            other=(cases, {"fault": fault, "ASSAY_SIM_CUBLAS_VERSION": "120901"}))
        self.assert_code(got["other"], 0)
        self.assert_code(got["ill"], 1)
        self.assertEqual(self.found("other"), {})
        found = self.found("ill")
        self.assertEqual(set(found), {(FP32, mode) for mode in ("default", "device_scalars", "workspace=0")})
        for r in found.values():
            self.assertEqual((r["verdict"], r["label"], r["algorithm"]), ("fail", "WRONG", "cublasGemmEx"))
            self.assertEqual(r["library"]["version"], "cuBLAS 12.8.4 for CUDA 12.8")
            self.assertEqual(r["confirmation"]["failed"], r["confirmation"]["runs"])
        self.assertIn("cublas", e2e.next_command(got["ill"]))
        old = {r["variant"]: r["reason"] for r in self.records("ill") if r["case"] == FP32 and r["verdict"] == "unsupported"}
        self.assertIn("needs cuBLAS 12.9 or later, this is cuBLAS 12.8.4", old["bf16x9"])

    def test_a_file_that_is_no_cublas_is_refused_in_one_sentence(self):
        foreign = e2e.FAKES / "fake_foreign.so"
        got = self.cublas([FP32], targets=("cublas:default",), library=foreign)
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "fake_foreign.so has no cublasGetProperty", "it is no cuBLAS")
        self.assertEqual({r["verdict"] for r in self.records()}, {"unavailable"})

    @unittest.skipUnless(REAL, "no cuBLAS under /usr/local/cuda and none in the cache")
    def test_a_real_cublas_opens_says_its_version_and_that_it_does_not_start_here(self):
        for library in REAL:
            with self.subTest(library=library):
                out = f"real{REAL.index(library)}"
                got = self.cublas([FP32], targets=("cublas:default",), library=library, out=out)
                self.assert_code(got, 2)
                major = library.rsplit(".", 1)[1]
                self.assert_one_sentence(got, f"cuBLAS {major}.", f"for CUDA {major}.", "does not start here: cublasCreate gives")
                self.assertEqual({r["verdict"] for r in self.records(out)}, {"unavailable"})


class All(Cublas):
    # fault: case, the modes that must show it, verdict and label, words of the reason
    FAULTS = {
        "create_fail": (FP32, {"default", "pedantic"}, "unavailable", "", "cublasCreate gives CUBLAS_STATUS_NOT_INITIALIZED (1)"),
        "execution_fail": (FP32, {"default", "pedantic"}, "fault", "", "cublasGemmEx: CUBLAS_STATUS_EXECUTION_FAILED (13)"),
        "silent_tf32": (REVEAL, {"default", "pedantic"}, "fail", None, ""),
        "k_tail": (FP32, {"default", "pedantic"}, "fail", "WRONG", "is wrong in"),
        "f16_sums": (LONG_BF16, {"default", "pedantic"}, "fail", None, ""),
        "beta_zero_reads_c": (FP32, {"default", "pedantic"}, "fail", None, "NaN"),
        "beta_ignored": (BETA, {"default", "pedantic"}, "fail", "WRONG", "is wrong in"),
        "nan_swallowed": (NAN, {"pedantic"}, "fail", "WRONG", ""),
        "flush_subnormals": (SUBNORMAL, {"pedantic"}, "fail", "WRONG", ""),
        "edge_tile": (FP32, {"default", "pedantic"}, "fail", "WRONG", "C[0,32,"),
        "bit_flip": (FP32, {"default", "pedantic"}, None, None, ""),
        "overrun": (FP32, {"default", "pedantic"}, "fail", "OUT-OF-BOUNDS", "after the end of C, on the device"),
    }

    def test_each_planted_fault_is_noticed_and_said_what_it_is(self):
        runs = {fault: ([case], {"fault": fault, "targets": ["cublas:default", "cublas:pedantic"]})
                for fault, (case, *_) in self.FAULTS.items()}
        got = self.together(**runs)
        for fault, (case, modes, verdict, label, words) in self.FAULTS.items():
            with self.subTest(fault=fault):
                self.assertNotEqual(got[fault].code, 0, str(got[fault]))
                found = self.found(fault)
                self.assertEqual(set(found), {(case, mode) for mode in modes})
                for r in found.values():
                    if verdict:
                        self.assertEqual(r["verdict"], verdict, r["reason"])
                    if label is not None:
                        self.assertEqual(r["label"], label, r["reason"])
                    self.assertIn(words, r["reason"])

    def test_no_convention_that_cublas_does_not_document_is_asked_of_it(self):
        self.assert_code(self.cublas([NAN, SUBNORMAL], fault="nan_swallowed,flush_subnormals", targets=("cublas:default",)), 0)
        self.assertEqual([r["verdict"] for r in self.records()], ["pass", "pass"])

    def test_all_layouts_queues_and_scalars_pass(self):
        cases = [f"g1:gemm:m=13,n=7,k=9,order={order},ta={ta},tb={tb}{formats}{rest},fill=integer"
                 for order in ("col", "row") for ta in "nt" for tb in "nt" for formats in ("", ",in=f64", ",in=bf16")
                 for rest in (",pada=3,padb=5,padc=7,alpha=2,beta=-3", ",batch=4,share=a", ",batch=5,mode=pointers,share=b")]
        cases += [f"{FP32},queue={q}" for q in ("second", "graph")]
        cases += [FP32 + ",callers=4,repeat=4", "g1:gemm:m=4,n=3,k=5,batch=70000,fill=integer", "g1:gemm:m=3,n=4,k=5,batch=0",
                  "g1:gemm:m=0,n=3,k=4,beta=-2,fill=integer", "g1:gemm:m=5,n=3,k=0,beta=-2,fill=integer",
                  "g1:gemm:m=8,n=8,k=8,alpha=0,fill=nan_one"]
        self.assert_code(self.cublas(cases), 0)
        self.assertEqual(self.found(), {})


if __name__ == "__main__":
    e2e.main()
