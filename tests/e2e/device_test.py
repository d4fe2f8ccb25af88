#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our kernels from NVRTC to the verdict, on the simulated device of tests/sim: planted faults are found, and nothing else.

The compilers are real, the device is not: its libcuda.so.1 runs the emulator's function of the kernel that was loaded. Without
an NVRTC nothing can run: exit 77, which is "not run".
"""
import concurrent.futures
import glob
import itertools
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

import e2e

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


def newest(*patterns):
    return next((path for p in patterns for path in sorted(glob.glob(p), reverse=True)), None)


FETCHED_NVRTC = newest(str(CACHE / "assay/wheels/nvidia-cuda-nvrtc-cu12-*/lib/libnvrtc.so.12"))
NVRTC = newest("/usr/local/cuda/lib64/libnvrtc.so.[0-9]*", "/usr/local/cuda-*/lib64/libnvrtc.so.[0-9]*",
               "/usr/lib/x86_64-linux-gnu/libnvrtc.so.[0-9]*", "/usr/lib64/libnvrtc.so.[0-9]*") or FETCHED_NVRTC
PTXAS = newest("/usr/local/cuda/bin/ptxas", "/usr/local/cuda-*/bin/ptxas")
NVCC = newest("/usr/local/cuda/bin/nvcc", "/usr/local/cuda-*/bin/nvcc")

# Of all kernels the ones that compile fastest carry the tests that do not depend on the operation.
CONVT = "g1:conv_transpose1d:cin=16,cout=16,l=9,k=4,stride=2"
EXACT = CONVT + ",fill=integer"
BY_FORMAT = {f: CONVT + ("" if f == "f32" else f",in={f}") + ",fill=integer" for f in ("f32", "f64", "bf16", "f16")}
SOFTMAX = "g1:softmax:rows=5,n=33"
SMALL = [
    e2e.TINY, e2e.TINY.replace(",fill", ",in=bf16,out=f32,fill"), SOFTMAX, "g1:softmax:rows=4,n=130,in=bf16", "g1:softmax:rows=3,n=17,kind=log,in=f64",
    "g1:layernorm:rows=5,n=33,gamma=1,stats=1", "g1:layernorm:rows=3,n=64,in=f16",
    "g1:conv1d:cin=16,cout=16,l=20,k=3,padl=1,padr=1,fill=integer", "g1:conv1d:cin=4,cout=8,l=20,k=3,groups=4,bias=1,in=bf16",
    EXACT, CONVT + ",bias=1,outpad=1,in=f16",
    "g1:attention:hq=2,sq=9,d=16,mask=causal", "g1:attention:hq=2,sq=9,d=16,in=bf16",
]
WAITING = "waiting for the operation and copying its result: "
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY (2), out of memory"
OURS = ("CUDA_", "NVIDIA_", "ASSAY_SIM_")


def version(record):
    return record["variant"].split("@")[0]


def build(record):
    return record["variant"].split("@")[1]


def at(kernel, fault):
    """The fault, on one kernel of conv_transpose1d: at("gather_f32", "launch_fail:code=1")."""
    return f"{fault}:kernel=conv_transpose1d_{kernel}"


class Device(e2e.EndToEnd):
    numbers = itertools.count()

    @staticmethod
    def driver():
        return e2e.FAKES.parent / "tests" / "sim" / "libcuda.so.1"

    def environment(self, **variables):
        env = {k: v for k, v in super().environment().items() if not k.startswith(OURS)}
        return env | variables

    def kernels(self, cases, *more, builds="nvrtc-ptx", fault="", out="run", targets=("kernel*",), driver=None, nvrtc=None, **variables):
        libraries = ["--libraries", f"cuda={driver or self.driver()}", "--libraries", f"nvrtc={nvrtc or NVRTC}"]
        env = self.environment(ASSAY_SIM_LOG=str(self.folder / f"{out}.log"), **variables)
        if fault:
            env["ASSAY_SIM_FAULT"] = fault
        return self.run_cases(targets, cases, *libraries, "--kernel-builds", builds, *more, out=out, env=env)

    def together(self, **runs):
        """Several runs at once, by the name of their folder: {out: (cases, options)}."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            started = {out: pool.submit(self.kernels, cases, out=out, **options) for out, (cases, options) in runs.items()}
            return {out: s.result() for out, s in started.items()}

    def log(self, out="run"):
        return (self.folder / f"{out}.log").read_text(encoding="utf-8")

    def workers(self, out="run"):
        """How many processes started the driver."""
        return len({line.split()[0] for line in self.log(out).splitlines() if " cuInit" in line})

    def assert_all_pass(self, outcome, out="run"):
        self.assert_code(outcome, 0)
        self.assert_valid(out)
        for r in self.records(out):
            self.assertEqual((r["verdict"], r["label"]), ("pass", ""), r)

    def assert_whole_suite_passes(self, outcome, out="run"):
        self.assert_code(outcome, 0)
        self.assert_valid(out)
        passed = {}
        for r in self.records(out):
            self.assertIn(r["verdict"], ("pass", "unsupported"), r["reason"])
            if r["verdict"] == "pass":
                passed.setdefault(r["op"], set()).add(version(r))
                self.assert_identified(r)
                self.assertTrue(r["algorithm"].startswith(f"{r['op']}_{version(r)}_"), r["algorithm"])
        self.assertEqual(passed, {"gemm": {"naive", "tiled", "split_k", "mma", "mma_tf32"}, "softmax": {"online", "two_pass"}, "layernorm": {"two_pass", "welford"},
                                  "conv1d": {"depthwise", "direct", "implicit_gemm"}, "conv_transpose1d": {"gather", "phases"},
                                  "attention": {"materialised", "online"}})

    def assert_only(self, expected, out="run"):
        """`expected`: (case, variant) -> (verdict, label, words of the reason). Everything else passes."""
        self.assert_valid(out)
        found = {(r["case"], r["variant"]): r for r in self.records(out)}
        self.assertLessEqual(set(expected), set(found))
        for key, r in found.items():
            verdict, label, words = expected.get(key, ("pass", "", ""))
            with self.subTest(out=out, case=key[0], variant=key[1]):
                self.assertEqual((r["verdict"], r["label"]), (verdict, label), r["reason"])
                self.assertIn(words, r["reason"])
                if verdict in ("fail", "fault"):
                    self.assertEqual(r["confirmation"]["failed"], r["confirmation"]["runs"])
                    self.assertGreaterEqual(r["confirmation"]["runs"], 2)
                if verdict not in ("unavailable", "unsupported"):  # a fault has its compiler and image as well
                    self.assert_identified(r)

    def assert_identified(self, r, sm=120):
        facts = r["conditions"]
        self.assertEqual(r["library"]["core"], "Assay simulated device")
        self.assertRegex(r["library"]["version"], r"^CUDA driver \d+\.\d$")
        self.assertEqual(facts["library build"], build(r))
        self.assertEqual(facts["library sm"], str(sm))
        kind = "PTX" if "-ptx" in build(r) and "ptxas" not in build(r) else "cubin"
        self.assertRegex(facts["library image"], rf"^{kind} for sm_\d+, [0-9a-f]{{16}}$")
        files = {"nvrtc-ptxas": ["nvrtc", "ptxas"], "nvcc-cubin": ["nvcc"]}.get("-".join(build(r).split("-")[:2]), ["nvrtc"])
        self.assertEqual(sorted(k[5:] for k in facts if k.startswith("file ")), files, "what made it, and nothing else")
        compiler = {"nvrtc-ptxas": r"NVRTC \d+\.\d+ \(PTX\), ptxas \d+\.\d+\.\d+", "nvcc-cubin": r"nvcc \d+\.\d+\.\d+"}
        self.assertRegex(facts["library compiler"],
                         "^" + compiler.get("-".join(build(r).split("-")[:2]), r"NVRTC \d+\.\d+") + "$")
        if build(r).startswith("nvrtc-ptx"):
            self.assertRegex(facts["library ptx"], "^[0-9a-f]{16}$")


class Quick(Device):
    def test_kernels_pass_and_say_what_they_are(self):
        got = self.kernels([EXACT, CONVT])
        self.assert_code(got, 0)
        self.assert_only({})
        self.assertEqual(len(self.records()), 4)
        self.assertIn("no GPU was probed", got.last, "a simulated device is none")
        self.assertEqual([g["name"] for g in self.environment_of()["gpus"]], ["Assay simulated device"])

    def test_a_build_that_gives_other_bits_within_the_bound_is_suspect(self):
        # Scores of 10^-6: a product that is left out of them moves a probability by a few units in the last place.
        case = "g1:attention:sq=4,skv=16,d=8,scale=1e-6"
        options = {"builds": "nvrtc-cubin,nvrtc-ptx", "targets": ("kernel:online@*",)}
        clean = self.kernels([case], out="clean", **options)
        self.assert_code(clean, 0)
        self.assertEqual([(r["verdict"], r["label"]) for r in self.records("clean")], [("pass", "")] * 2)
        got = self.kernels([case], fault="k_tail:build=ptx", **options)
        self.assert_code(got, 0)
        self.assertEqual([(r["variant"], r["verdict"], r["label"]) for r in self.records()],
                         [("online@nvrtc-cubin", "pass", ""), ("online@nvrtc-ptx", "suspect", "BUILD")])
        self.assertIn("built as nvrtc-cubin", self.records()[1]["reason"])
        command = re.search(r"Next: (assay run .*)$", got.last).group(1)
        again = self.shell(command + " --out again", env=self.environment(ASSAY_SIM_FAULT="k_tail:build=ptx"))
        self.assertEqual([r["label"] for r in self.records("again")], ["", "BUILD"], again)

    def test_a_store_that_one_build_drops_is_seen_in_that_build_alone_and_again_by_the_printed_command(self):
        fault = at("gather_f32", "drop_store:build=ptx")
        got = self.kernels([EXACT], builds="nvrtc-cubin-O0,nvrtc-ptx", fault=fault)
        self.assert_code(got, 1)
        self.assert_only({(EXACT, "gather@nvrtc-ptx"): ("fail", "UNWRITTEN", "left 1 of ")})
        command = e2e.next_command(got)
        self.assertIn("kernel:gather@nvrtc-ptx", command)
        self.assertIn(f"cuda={self.driver()}", command)
        again = self.shell(command + " --out again", env=self.environment(ASSAY_SIM_FAULT=fault))
        self.assert_code(again, 1)
        self.assertEqual([(r["variant"], r["label"]) for r in self.records("again")], [("gather@nvrtc-ptx", "UNWRITTEN")])
        self.assert_code(self.shell(command + " --out repaired", env=self.environment()), 0)

    def test_an_error_that_stays_ends_one_worker_and_no_other_record(self):
        cases = [BY_FORMAT["f32"], BY_FORMAT["f64"]]
        got = self.kernels(cases, fault=at("gather_f32", "sticky"))
        self.assert_code(got, 1)
        self.assert_only({(cases[0], "gather@nvrtc-ptx"): (
            "fault", "", WAITING + "CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered")})
        # Three ask for the device, before, at the start and at the end, one for the libraries' versions; three for the fault and
        # its confirmation, one afterwards; one for the other lane.
        self.assertEqual(self.workers(), 4 + 3 + 1 + 1)

    def test_a_kernel_that_never_ends_is_stopped(self):
        got = self.kernels([EXACT], "--deadline", "0.4", fault=at("phases_f32", "hang"))
        self.assert_code(got, 1)
        self.assert_only({(EXACT, "phases@nvrtc-ptx"): ("fault", "", "the call did not return within 0.4 s and was stopped")})

    def test_a_kernel_build_that_is_none_is_refused(self):
        for text, why in (("bogus", "it names no compiler"), ("nvrtc-ptx-O9", '"O9" is not known'), ("nvrtc-ptx-", "not known"),
                          ("nvrtc-cubin,nvcc", "it names no compiler")):
            with self.subTest(text=text):
                got = self.kernels([EXACT], builds=text)
                self.assert_refused(got, f'kernel build "{text.split(",")[-1]}"', why, "expected nvrtc-cubin, nvrtc-ptx")

    def test_a_device_that_is_not_there_is_unavailable(self):
        got = self.kernels([EXACT], "--device", "7")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "has 1 device, so there is no device 7")
        self.assertEqual({r["verdict"] for r in self.records()}, {"unavailable"})
        self.assertIn("no GPU was probed", got.last)

    @unittest.skipIf(newest("/usr/lib*/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1",
                            "/usr/local/nvidia/lib64/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"), "this machine has a driver")
    def test_without_a_driver_kernels_are_unavailable(self):
        got = self.run_cases(["kernel*"], [EXACT])
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "no GPU driver (libcuda.so.1) was found", "--libraries cuda=PATH")
        self.assertEqual({r["verdict"] for r in self.records()}, {"unavailable"})

    def test_a_file_that_is_no_driver_or_no_compiler_is_named(self):
        foreign = e2e.FAKES / "fake_foreign.so"
        for out, options, words in (("driver", {"driver": foreign}, "it is no CUDA driver"), ("nvrtc", {"nvrtc": foreign}, "it is no NVRTC"),
                                    ("absent", {"driver": "/nonexistent"}, "No such file")):
            with self.subTest(out=out):
                got = self.kernels([EXACT], out=out, **options)
                self.assert_code(got, 2)
                self.assert_one_sentence(got, words, str(options.get("driver", foreign)))

    def test_a_case_that_only_a_gpu_can_take_says_so(self):
        got = self.run_cases(["eigen"], [EXACT + ",queue=graph"])
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "queue=")
        self.assertEqual(self.records(), [])


class All(Device):
    def test_every_kernel_of_every_operation_passes_and_says_what_it_is(self):
        got = self.kernels(SMALL)
        self.assert_whole_suite_passes(got)

    def test_flushed_subnormals_are_seen_where_there_are_some(self):
        subnormal = {f: c.replace("fill=integer", "fill=subnormal") for f, c in BY_FORMAT.items()}
        cases = [*BY_FORMAT.values(), CONVT, *subnormal.values(), SOFTMAX, SOFTMAX + ",fill=dyadic"]
        got = self.kernels(cases, fault="flush_subnormals")
        self.assert_code(got, 1)
        # Of fp16 not: its subnormals are normal numbers of fp32, in which the kernels work.
        self.assert_only({(subnormal[f], f"{v}@nvrtc-ptx"): ("fail", "WRONG", "") for f in ("f32", "f64", "bf16") for v in ("gather", "phases")})

    def test_a_tail_that_one_architecture_loses_is_seen_there_alone(self):
        cases, targets = [e2e.TINY, EXACT, SOFTMAX], ["kernel:naive*", "kernel:mma_tf32*", "kernel:gather*", "kernel:two_pass*"]
        got = self.together(**{f"sm{sm}": (cases, {"fault": "k_tail:sm=120", "targets": targets, "ASSAY_SIM_SM": str(sm)}) for sm in (90, 120)})
        self.assert_all_pass(got["sm90"], out="sm90")
        self.assertEqual(len(self.records("sm90")), 4)
        self.assert_code(got["sm120"], 1)
        lost = [(e2e.TINY, "naive"), (e2e.TINY, "mma_tf32"), (EXACT, "gather")]
        self.assert_only({(case, f"{v}@nvrtc-ptx"): ("fail", "WRONG", "") for case, v in lost}, out="sm120")

    def test_each_way_to_fail_has_its_record(self):
        late = WAITING + "CUDA_ERROR_ILLEGAL_ADDRESS (700)"
        flipped = "data changed on its way to the device and back, before any operation had run on it"
        ways = {  # out: kernel, fault, verdict, label, reason, exit code
            "late": ("gather_f32", "late_error", "fault", "", late, 1),
            "failed": ("phases_f64", "launch_fail", "fault", "", WAITING + "CUDA_ERROR_LAUNCH_FAILED (719)", 1),
            "invalid": ("gather_bf16", "launch_fail:code=1", "fault", "", "CUDA_ERROR_INVALID_VALUE (1), invalid argument", 1),
            "resources": ("phases_f16", "launch_fail:code=701", "fault", "", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)", 1),
            "memory": ("gather_f64", "launch_fail:code=2", "unavailable", "", OUT_OF_MEMORY, 3),
            "guard": ("phases_bf16", "guard", "fail", "OUT-OF-BOUNDS", "after the end of Y, on the device", 1),
            "dropped": ("gather_f16", "drop_store", "fail", "UNWRITTEN", "elements of the output unwritten", 1),
            "flipped": ("", "copy_flip", "fault", "", flipped, 1),
        }
        runs = {out: ([EXACT] if not kernel else [BY_FORMAT[kernel.split("_")[1]], BY_FORMAT["f32" if "f32" not in kernel else "f64"]],
                      {"fault": at(kernel, fault) if kernel else fault}) for out, (kernel, fault, *_) in ways.items()}
        got = self.together(**runs)
        for out, (kernel, _, verdict, label, words, code) in ways.items():
            self.assert_code(got[out], code)
            versions = [kernel.split("_")[0]] if kernel else ["gather", "phases"]
            self.assert_only({(runs[out][0][0], f"{v}@nvrtc-ptx"): (verdict, label, words) for v in versions}, out=out)
            # 3 runs of a failure, each in a worker of its own; a wrong value does not end one, a confirmation begins one. Three
            # ask: for devices, for the state of the GPU before and after; one for the libraries' versions.
            self.assertLessEqual(self.workers(out), 4 + 2 + 3 * len(versions), out)

    def test_memory_that_ran_out_is_unavailable_for_that_case_alone(self):
        got = self.together(never=([EXACT, CONVT], {"fault": "alloc_fail"}),
                            small=([CONVT.replace("cin=16,cout=16", "cin=300,cout=300"), CONVT], {"ASSAY_SIM_MEMORY": str(1 << 20)}))
        self.assert_code(got["never"], 2)
        self.assert_one_sentence(got["never"], "allocating", OUT_OF_MEMORY)
        self.assertEqual({r["verdict"] for r in self.records("never")}, {"unavailable"})
        self.assertEqual(self.workers("never"), 4 + 2, "nobody died of it")
        self.assert_code(got["small"], 3)
        self.assertEqual([r["verdict"] for r in self.records("small")], ["unavailable"] * 2 + ["pass"] * 2)

    def test_a_copy_that_changes_a_bit_later_is_told_from_a_wrong_operation(self):
        outs = {f"after{n}": ([EXACT], {"fault": f"copy_flip:after={n}", "targets": ["kernel:gather*"]}) for n in (3, 5, 9)}
        for out, got in self.together(**outs).items():
            self.assert_code(got, 1)
            (record,) = self.records(out)
            self.assertEqual((record["verdict"], record["label"]), ("fault", ""), record["reason"])
            self.assertIn("the transfer is at fault", record["reason"])

    @unittest.skipUnless(PTXAS and NVCC, "no ptxas and nvcc under /usr/local/cuda")
    def test_every_build_passes_and_is_told_from_the_others(self):
        names = ["nvrtc-cubin", "nvrtc-cubin-O0", "nvrtc-cubin-fast", "nvrtc-cubin-lower", "nvrtc-ptx", "nvrtc-ptx-O0", "nvrtc-ptx-fast",
                 "nvrtc-ptxas", "nvrtc-ptxas-O1", "nvcc-cubin", "nvcc-cubin-lower"]
        got = self.kernels([EXACT], builds=",".join([*names, "nvrtc-ptx-O3"]), targets=["kernel:gather*"], ASSAY_SIM_SM="86")
        self.assert_code(got, 0)
        self.assert_valid()
        records = {build(r): r for r in self.records()}
        self.assertEqual(list(records), names, "each once: -O3 is what every build has unless it says something else")
        self.assertEqual(len(records), len(self.records()))
        for r in records.values():
            self.assertEqual((r["verdict"], r["label"]), ("pass", ""), r["reason"])
            self.assert_identified(r, sm=86)
            self.assertIn("sm_80" if "lower" in build(r) else "sm_86", r["conditions"]["library image"])
        image = {b: r["conditions"]["library image"] for b, r in records.items()}
        for one, other in (("nvrtc-cubin", "nvrtc-cubin-O0"), ("nvrtc-cubin", "nvrtc-cubin-fast"), ("nvrtc-ptx", "nvrtc-ptx-fast"),
                           ("nvrtc-cubin", "nvcc-cubin"), ("nvrtc-ptxas", "nvrtc-ptxas-O1")):
            self.assertNotEqual(image[one].split()[-1], image[other].split()[-1], f"{one} and {other} are one image")
        self.assertEqual(records["nvrtc-ptxas"]["conditions"]["library ptx"], records["nvrtc-ptx"]["conditions"]["library ptx"])

    @unittest.skipUnless(FETCHED_NVRTC, "no NVRTC 12 in the cache: tools/fetch_wheels.sh fetches one")
    def test_the_other_major_of_nvrtc_compiles_them_too(self):
        got = self.kernels([EXACT, SOFTMAX], nvrtc=FETCHED_NVRTC)
        self.assert_all_pass(got)
        self.assertEqual({r["conditions"]["library compiler"] for r in self.records()}, {"NVRTC 12.8"})

    def test_queues_are_for_kernels_and_do_what_they_say(self):
        cases = [f"{EXACT},queue={q}" for q in ("second", "graph", "busy")]
        got = self.kernels(cases, targets=["kernel:gather*", "eigen"])
        self.assert_all_pass(got)
        self.assertEqual([r["case"] for r in self.records()], cases, "and the control takes none of them")
        launches = re.findall(r"^\d+ (cuGraphLaunch|cuStreamWaitEvent|cuLaunchKernel)(.*)$", self.log(), re.MULTILINE)
        calls = [name for name, _ in launches]
        self.assertEqual(calls.count("cuGraphLaunch"), 3, "captured once, replayed by two equal calls and one with other data")
        self.assertEqual(calls.count("cuStreamWaitEvent"), 2 * 3, "after the copies, before the next ones")
        self.assertEqual(len([t for _, t in launches if "neighbour_busy" in t]), 3)

    def test_variables_that_change_numbers_are_taken_out_and_recorded(self):
        got = self.kernels([EXACT], targets=["kernel:gather*"], NVIDIA_TF32_OVERRIDE="1", CUDA_LAUNCH_BLOCKING="1")
        self.assert_all_pass(got)
        (record,) = self.records()
        self.assertEqual(record["conditions"]["NVIDIA_TF32_OVERRIDE"], "taken out")
        self.assertEqual(record["conditions"]["CUDA_LAUNCH_BLOCKING"], "taken out")
        self.assertEqual(record["conditions"]["CUDA_CACHE_DISABLE"], "1")

    def test_what_a_card_is_asked_besides_its_cases(self):
        checks = (("inputs", "inputs_normal_bf16", "equal", "normal   bf16"),
                  ("traps", "trap_argmax_ties", "0 of 15 wrong", "traps argmax_ties built as nvrtc-cubin"),
                  ("approximations", "approximate_tanh_f32", "tanh.approx.f32: 65553 inputs", "WRONG NaN"))
        for what, kernel, right, wrong in checks:
            arguments = ("__device-check", what, "--libraries", f"cuda={self.driver()}", "--libraries", f"nvrtc={NVRTC}",
                         "--step", "65520")
            with self.subTest(what=what):
                clean = self.assay(*arguments, env=self.environment())
                self.assert_code(clean, 0)
                self.assertIn(right, clean.out)
                broken = self.assay(*arguments, env=self.environment(ASSAY_SIM_FAULT=f"drop_store:kernel={kernel}"))
                self.assert_code(broken, 1)
                self.assertIn(wrong, broken.out)

    def test_the_fingerprint_of_a_tensor_core_tells_its_generation(self):
        for sm, like in (("80", "a100"), ("120", "h100")):
            with self.subTest(sm=sm):
                got = self.assay("fingerprint", "--json", "--target", "kernel:mma@*", "--libraries", f"cuda={self.driver()}", "--libraries",
                                 f"nvrtc={NVRTC}", env=self.environment(ASSAY_SIM_SM=sm))
                self.assert_code(got, 0)
                prints = {f["formats"]: f for f in json.loads(got.out)}
                self.assertIn("unsupported", prints["fp32"]["refused"])
                for formats in ("bf16>fp32", "fp16>fp32"):
                    self.assertEqual(prints[formats]["like"], [like])
                    self.assertEqual([o["like"] for o in prints[formats]["orders"]], [[like]] * 3)
                    self.assertEqual(prints[formats]["bits_like"][like], 1)
                    self.assertLess(prints[formats]["bias"], -0.5)

    def test_a_run_on_kernels_resumes(self):
        cases = [*BY_FORMAT.values()]
        self.assert_all_pass(self.kernels(cases))
        path = self.folder / "run" / "run.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        self.assertEqual(len(lines), 2 * len(cases))
        path.write_text("".join(lines[:3]), encoding="utf-8")
        (self.folder / "run.log").unlink()
        self.assert_all_pass(self.kernels(cases, "--resume"))
        self.assertEqual(path.read_text(encoding="utf-8").splitlines(keepends=True)[:3], lines[:3])
        self.assertEqual(len(set(self.keys())), 2 * len(cases))
        self.assertEqual(len(self.keys()), 2 * len(cases))
        self.assertNotIn("conv_transpose1d_gather_f32", re.sub(r"^.*cuModule.*$", "", self.log(), flags=re.MULTILINE),
                         "what is recorded is not run again")

    def test_a_run_does_not_resume_on_another_driver_file(self):
        driver = self.folder / "libcuda.so.1"
        shutil.copy(self.driver(), driver)
        self.assert_all_pass(self.kernels([EXACT], driver=driver))
        with open(driver, "ab") as file:
            file.write(b"\0")
        got = self.kernels([EXACT], "--resume", driver=driver)
        self.assert_code(got, 2)
        self.assert_one_sentence(got, str(driver), "has changed since this run began")


if __name__ == "__main__":
    if not NVRTC:
        print("no NVRTC (libnvrtc.so.12 or .13) on this machine: not run")
        sys.exit(77)
    e2e.main()
