#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real BLAS libraries and stand-ins, opened by path: identity, core types, naming schemes, and files that are no BLAS."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import e2e
from e2e import SMALL, TINY


def needs(name):
    return unittest.skipUnless(e2e.system_library(name), f"this machine has no {name} library")


class RealLibraries(e2e.EndToEnd):
    @needs("openblas")
    def test_a_record_names_path_build_id_digest_version_and_core_of_openblas(self):
        path = e2e.system_library("openblas")
        self.assert_code(self.run_cases(["openblas"], [SMALL]), 0)
        library = self.records()[0]["library"]
        data = pathlib.Path(path).read_bytes()
        notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
        self.assertEqual(library["path"], path)
        self.assertEqual(library["sha256"], hashlib.sha256(data).hexdigest())
        self.assertEqual(library["size_bytes"], str(len(data)))
        self.assertEqual(library["build_id"], re.search(r"Build ID: (\w+)", notes).group(1))
        self.assertRegex(library["version"], r"OpenBLAS 0\.\d+")
        self.assertTrue(library["core"])
        self.assertIn(path, [lib["path"] for lib in self.environment_of()["libraries"]])

    @needs("openblas")
    def test_variables_of_the_user_are_recorded_and_left_as_found_for_the_default_target(self):
        env = self.environment(OPENBLAS_CORETYPE="Nehalem", OPENBLAS_NUM_THREADS="1")
        self.assert_code(self.run_cases(["openblas", "openblas:core=Prescott"], [SMALL], env=env), 0)
        records = self.by_target()
        self.assertEqual(records["openblas"]["library"]["core"], "Nehalem")
        self.assertEqual(records["openblas"]["conditions"]["library threads"], "1")
        self.assertNotIn("OPENBLAS_CORETYPE", records["openblas"]["conditions"])
        self.assertEqual(records["openblas:core=Prescott"]["library"]["core"], "Prescott")
        self.assertEqual(records["openblas:core=Prescott"]["conditions"]["OPENBLAS_CORETYPE"], "Prescott")
        variables = self.environment_of()["variables"]
        self.assertEqual((variables["OPENBLAS_CORETYPE"], variables["OPENBLAS_NUM_THREADS"]), ("Nehalem", "1"))

    @needs("openblas")
    def test_core_types_run_in_workers_of_their_own_and_one_that_is_not_there_fails_nothing(self):
        got = self.assay("run", "--case", SMALL, "--out", "run")
        self.assert_code(got, 0)
        self.assert_valid()
        ladder = {r["variant"][5:]: r for r in self.records() if r["variant"].startswith("core=")}
        ran = {name for name, r in ladder.items() if r["verdict"] == "pass"}
        self.assertLessEqual({"Prescott", "Nehalem", "Haswell"}, ran)
        for name, record in ladder.items():
            self.assertFalse(record["required"])
            if name in ran:
                self.assertEqual(record["library"]["core"].lower(), name.lower(), "the library confirms it")
            else:
                self.assertEqual(record["verdict"], "unavailable")
                self.assertTrue(record["reason"])

    @needs("openblas")
    def test_a_core_type_that_the_user_names_and_the_machine_lacks_makes_the_run_incomplete(self):
        flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
        missing = "Bulldozer" if "fma4" not in flags else "SkylakeX"
        if missing == "SkylakeX" and "avx512f" in flags:
            self.skipTest("this CPU lacks no level")
        got = self.run_cases(["openblas", f"openblas:core={missing}"], [SMALL])
        self.assert_code(got, 3)
        self.assertIn(missing, got.last)
        self.assertEqual(self.by_target()[f"openblas:core={missing}"]["verdict"], "unavailable")
        self.run_cases([f"openblas:core={missing}"], [SMALL, TINY], out="two")
        reasons = [r["reason"] for r in self.records("two")]
        self.assertEqual(len(reasons), 2)
        self.assertTrue(all(missing in reason for reason in reasons), reasons)
        alone = self.run_cases([f"openblas:core={missing}"], [SMALL], out="alone")
        self.assert_code(alone, 2)
        self.assertNotIn("PASS", alone.last)

    @needs("openblas")
    def test_a_core_type_that_the_library_silently_replaces_is_unavailable(self):
        # The stand-in says Fakewell whatever it is asked for.
        library = e2e.FAKES / "fake_openblas.so"
        got = self.run_cases(["openblas", "openblas:core=Prescott"], [SMALL], "--libraries", f"openblas={library}")
        self.assert_code(got, 3)
        record = self.by_target()["openblas:core=Prescott"]
        self.assertEqual(record["verdict"], "unavailable")
        self.assertIn("Fakewell", record["reason"])
        self.assertIn("Prescott", record["reason"])

    @needs("blis")
    def test_the_other_libraries_of_the_machine_are_probed_too(self):
        self.assert_code(self.assay("run", "--case", SMALL, "--out", "run"), 0)
        self.assertLessEqual({"eigen", "blis"}, {r["target"] for r in self.records() if r["verdict"] == "pass"})

    @needs("openblas")
    def test_a_library_that_changed_since_the_run_began_is_not_mixed_in_by_resume(self):
        mine = self.folder / "libopenblas.so"
        shutil.copy(e2e.FAKES / "fake_openblas.so", mine)
        command = ["run", "--libraries", f"openblas={mine}", "--target", "openblas", "--out", "run", "--case", TINY]
        self.assert_code(self.assay(*command), 0)
        mine.unlink()
        shutil.copy(e2e.FAKES / "fake_scipy64.so", mine)
        before = self.records()
        got = self.assay(*command, "--case", SMALL, "--resume")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "has changed", "--out")
        self.assertEqual(self.records(), before)


class StandIns(e2e.EndToEnd):
    def probe(self, name, family, *more):
        return self.run_cases([family], [TINY, SMALL + ",in=f64"], "--libraries", f"{family}={e2e.FAKES / name}.so", *more)

    def test_prefixes_suffixes_and_64_bit_integers_are_detected(self):
        for name, family, integers in (("fake_lp64", "cblas", "32-bit"), ("fake_ilp64", "cblas", "64-bit"),
                                       ("fake_scipy64", "openblas", "64-bit"), ("fake_openblas", "openblas", "32-bit"),
                                       ("fake_reference", "refblas", "32-bit")):
            with self.subTest(library=name):
                self.assert_code(self.probe(name, family, "--quiet"), 0)
                self.assertEqual({r["conditions"]["library integers"] for r in self.records()}, {integers})
                shutil.rmtree(self.folder / "run")

    def test_a_library_that_is_incomplete_or_whose_integers_cannot_be_told_is_not_called(self):
        for name, family, word in (("fake_liar", "openblas", "integers"), ("fake_wrong_sdot", "cblas", "cblas_sdot"),
                                   ("fake_no_dgemm", "cblas", "cblas_dgemm")):
            with self.subTest(library=name):
                got = self.probe(name, family)
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.assert_code(got, 2)
                self.assert_one_sentence(got, name, word)
                self.assertNotIn("PASS", got.out)

    def test_files_that_are_no_blas_are_refused_in_one_sentence(self):
        (self.folder / "text.so").write_text("INPUT(libreal.so)\n")
        (self.folder / "empty.so").write_bytes(b"")
        cut = (e2e.FAKES / "fake_lp64.so").read_bytes()
        (self.folder / "cut.so").write_bytes(cut[:len(cut) // 3])
        libm = "/usr/lib/x86_64-linux-gnu/libm.so.6"
        for path, word in ((self.folder / "text.so", "text"), (self.folder / "empty.so", "empty"), (self.folder / "cut.so", "cut"),
                           (libm, "cblas_sgemm"), (e2e.FAKES / "fake_foreign.so", "cblas_sgemm"),
                           (e2e.FAKES / "fake_no_sgemm.so", "cblas_sgemm"), (e2e.FAKES / "fake_unknown_prefix.so", "other_"),
                           ("/nonexistent/libblas.so", "No such file"),
                           ("/dev/null", "/dev/null"), ("/", "folder")):
            with self.subTest(path=str(path)):
                got = self.run_cases(["eigen"], [TINY], "--libraries", f"cblas={path}")
                self.assert_refused(got, word, str(path))

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_an_unreadable_library_is_refused_in_one_sentence(self):
        shutil.copy(e2e.FAKES / "fake_lp64.so", self.folder / "closed.so")
        (self.folder / "closed.so").chmod(0)
        self.assert_refused(self.run_cases(["cblas"], [TINY], "--libraries", f"cblas={self.folder}/closed.so"), "Permission denied")

    def test_a_family_name_that_the_file_contradicts_is_refused(self):
        self.assert_refused(self.probe("fake_openblas", "blis"), "openblas=")

    def test_a_bf16_product_is_unsupported_where_the_library_has_none(self):
        case = "g1:gemm:m=8,n=6,k=16,in=bf16,out=f32,fill=integer"
        for name, family, verdict in (("fake_scipy64", "openblas", "pass"), ("fake_openblas", "openblas", "unsupported")):
            self.run_cases([family], [case], "--libraries", f"{family}={e2e.FAKES / name}.so", out=name)
            self.assertEqual(self.records(name)[0]["verdict"], verdict)


class DeviceFiles(e2e.EndToEnd):
    """The stand-ins for driver and NVML have one device, "Fake GPU 90"."""

    def env(self, driver, *more):
        chosen = [f"cuda={e2e.FAKES / driver}.so", f"nvml={e2e.FAKES / 'fake_nvml'}.so"]
        got = self.assay("env", *(word for value in chosen for word in ("--libraries", value)), *more)
        self.assert_code(got, 0)
        return got.out

    def test_env_describes_the_device_that_a_worker_finds_behind_a_named_driver(self):
        out = self.env("fake_driver")
        self.assertIn("device 0  Fake GPU 90, SM 9.0, 132 multiprocessors, 144384 MiB, CUDA 12.8, kernel module 570.124.06", out)
        self.assertRegex(out, "mapped +.*fake_driver.so: driver for CUDA 12.8")
        self.assertRegex(out, "mapped +.*fake_nvml.so: NVML 12.570.124.06")
        environment = json.loads(self.env("fake_driver", "--json"))
        (gpu,) = environment["gpus"]
        self.assertEqual((gpu["name"], gpu["vbios"], gpu["ecc"], gpu["mig"]), ("Fake GPU 90", "96.00.A5.00.01", "on", ""))
        self.assertEqual(gpu["before"]["throttled"], "power cap, hot")
        self.assertNotIn("0F:00", json.dumps(environment), "a bus address is not recorded")

    def test_env_says_that_a_stub_is_no_driver_and_goes_on(self):
        out = self.env("fake_stub_driver")
        self.assertRegex(out, "not opened: .*fake_stub_driver.so is the stub that toolkits ship for linking")
        self.assertNotIn("device 0", out)


def newest_of(name, *folders):
    """The real file behind the last match."""
    found = sorted(os.path.realpath(p) for f in folders for p in pathlib.Path("/").glob(f.lstrip("/") + "/" + name))
    return found[-1] if found else None


class VendorFiles(e2e.EndToEnd):
    """Real cuBLAS and cuDNN say their version without a device."""
    CACHE = str(pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "assay" / "wheels")
    TOOLKIT = "/usr/local/cuda*/lib64"

    def mapped(self, role, path):
        got = self.assay("env", "--libraries", f"{role}={path}")
        self.assert_code(got, 0)
        return re.search(rf"mapped +{re.escape(str(path).replace(str(pathlib.Path.home()), '~'))}: (.*)", got.out), got.out

    def test_one_program_opens_cublas_of_both_majors(self):
        files = {12: newest_of("libcublas.so.12", self.CACHE + "/nvidia-cublas-cu12-*/lib", self.TOOLKIT),
                 13: newest_of("libcublas.so.13", self.CACHE + "/nvidia-cublas-*/lib", self.TOOLKIT)}
        if not all(files.values()):
            self.skipTest("needs cuBLAS 12 and 13: a toolkit, and tools/fetch_wheels.sh --cublas")
        for major, path in files.items():
            with self.subTest(path=path):
                said, out = self.mapped("cublas", path)
                self.assertTrue(said, out)
                self.assertRegex(said.group(1), rf"^cuBLAS {major}\.\d+\.\d+ for CUDA {major}\.\d+$")
                self.assertRegex(out, rf"mapped .*libcublasLt.so.{major}[^:]*: cuBLASLt {major}\.", "the cuBLASLt beside it, and no other")

    def test_a_foreign_file_is_refused_in_one_sentence(self):
        for role in ("cublas", "cublasLt", "cudnn"):
            with self.subTest(role=role):
                got = self.assay("env", "--libraries", f"{role}={e2e.FAKES / 'fake_foreign.so'}")
                self.assert_code(got, 0)
                self.assertRegex(got.out, r"not opened: .*fake_foreign\.so ")


if __name__ == "__main__":
    e2e.main()
