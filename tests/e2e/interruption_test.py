#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Interrupted runs: nothing measured is lost, no worker stays behind, and --resume completes."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import e2e
from e2e import TINY

# 150 records, about half a second of work: long enough to be stopped in the middle on any machine.
SHAPES = "g1:gemm:m={8,33,64,97,128},n={5,30,48,100,160},k={9,64,200}%s\n"
# One case of 1000 executions: its worker lives for a while.
LONG = "g1:gemm:m=64,n=64,k=64,repeat=1000"


class Interrupted(e2e.EndToEnd):
    def setUp(self):
        super().setUp()
        (self.folder / "many.cases").write_text(SHAPES % "" + SHAPES % ",in=f64")
        self.all = [f"g1:gemm:m={m},n={n},k={k}{format}" for format in ("", ",in=f64") for m in (8, 33, 64, 97, 128)
                    for n in (5, 30, 48, 100, 160) for k in (9, 64, 200)]
        self.many = ["run", "--out", "run", "--target", "eigen", "--cases", "many.cases"]

    def environment(self, **variables):
        # Other tests run at the same time: threads that wait for each other on a busy machine only make this slow.
        return super().environment(OMP_NUM_THREADS="1", **variables)

    def stop_in_the_middle(self, how, after=20):
        process = self.start(*self.many)
        self.wait_for(lambda: self.lines_written() >= after, f"{after} records")
        process.send_signal(how)
        got = self.finish(process)
        self.assertLess(self.lines_written(), len(self.all), "stopped before its end")
        return got

    def assert_completes(self, kept=None):
        """--resume adds what is missing behind the bytes `kept`, by default every whole line that is there."""
        before = kept or (self.folder / "run" / "run.jsonl").read_bytes()
        got = self.assay(*self.many, "--resume")
        self.assert_code(got, 0)
        self.assertRegex(got.last, r"^PASS: 150 results")
        after = (self.folder / "run" / "run.jsonl").read_bytes()
        self.assertTrue(after.startswith(before[:before.rfind(b"\n") + 1]), "what was measured is still there")
        self.assert_valid()
        self.assertEqual(sorted(case for case, _, _ in self.keys()), sorted(self.all), "every key exactly once")
        self.assertIn("150 results", self.report())

    def test_ctrl_c_and_sigterm_write_the_report_and_exit_3_and_resume_completes(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=how.name):
                got = self.stop_in_the_middle(how)
                self.assert_code(got, 3)
                self.assertRegex(got.last, r"^INCOMPLETE: the run was interrupted, \d+ required results not started; "
                                           r"\d+ of \d+ that ran passed")
                self.assert_valid()
                self.assertIn("interrupted", self.report())
                self.assert_completes()
                shutil.rmtree(self.folder / "run")

    def test_the_command_that_an_interrupted_run_prints_completes_that_run(self):
        got = self.stop_in_the_middle(signal.SIGINT)
        again = self.shell(e2e.next_command(got))
        self.assert_code(again, 0)
        self.assertEqual(sorted(case for case, _, _ in self.keys()), sorted(self.all))
        self.assertEqual({r["target"] for r in self.records()}, {"eigen"})

    def test_ctrl_c_ends_a_call_that_hangs(self):
        process = self.start("run", "--out", "run", "--target", "eigen", "--target", "planted:hang", "--case", TINY)
        self.wait_for(lambda: self.lines_written() == 1 and len(e2e.workers_of(process.pid)) == 2, "the hanging call")
        workers = e2e.workers_of(process.pid)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 3)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertFalse([w for w in workers if os.path.exists(f"/proc/{w}")], "no worker is left")
        self.assertEqual([r["target"] for r in self.records()], ["eigen"])

    def test_kill_9_leaves_no_worker_and_a_readable_file_and_resume_completes(self):
        process = self.start(*self.many)
        self.wait_for(lambda: self.lines_written() >= 20, "20 records")
        workers = self.wait_for(lambda: e2e.workers_of(process.pid), "a worker")
        process.kill()
        self.finish(process)
        self.wait_for(lambda: not [w for w in workers if os.path.exists(f"/proc/{w}")], "the workers to die", timeout=10)
        self.assertFalse((self.folder / "run" / "report.md").exists())
        self.assertLess(self.lines_written(), 150)
        self.assert_valid()
        self.assert_completes()

    def test_kill_9_leaves_no_worker_that_is_inside_a_hanging_call(self):
        process = self.start("run", "--out", "run", "--target", "planted:hang", "--case", TINY)
        workers = self.wait_for(lambda: e2e.workers_of(process.pid), "a worker")
        time.sleep(0.3)
        process.kill()
        self.finish(process)
        self.wait_for(lambda: not [w for w in workers if os.path.exists(f"/proc/{w}")], "the workers to die", timeout=10)

    def test_a_worker_killed_from_outside_costs_one_record_and_is_told_from_a_library_that_crashes(self):
        process = self.start("run", "--out", "run", "--target", "eigen", "--case", LONG, "--case", TINY)
        (worker,) = self.wait_for(lambda: e2e.workers_of(process.pid), "a worker")
        time.sleep(0.05)
        os.kill(worker, signal.SIGKILL)
        got = self.finish(process)
        self.assert_code(got, 4)
        self.assertRegex(got.last, r"^FLAKY: .* both passed and failed on eigen in 1 of 2 results")
        first, second = self.records()
        self.assertEqual((first["confirmation"]["runs"], first["confirmation"]["failed"]), (3, 1))
        self.assertIn("SIGKILL", first["reason"])
        self.assertEqual(second["verdict"], "pass")
        self.assertIn("1 of 3 runs", self.report())

    def test_a_finished_run_resumed_runs_nothing_and_keeps_what_it_knew(self):
        library = f"openblas={e2e.FAKES / 'fake_openblas.so'}"
        command = ["run", "--out", "run", "--target", "openblas", "--libraries", library, "--case", TINY]
        self.assert_code(self.assay(*command), 0)
        records, libraries = self.records(), self.environment_of()["libraries"]
        self.assertTrue(any("fake_openblas" in lib["path"] for lib in libraries))
        self.assert_code(self.assay(*command, "--resume"), 0)
        self.assertEqual(self.records(), records)
        self.assertEqual(self.environment_of()["libraries"], libraries)

    def test_two_runs_cannot_write_one_folder(self):
        process = self.start("run", "--out", "run", "--target", "eigen", "--target", "planted:hang", "--case", TINY)
        self.wait_for(lambda: self.lines_written() == 1, "a record")
        environment = (self.folder / "run" / "environment.json").read_bytes()
        for more in ([], ["--resume"]):
            got = self.assay(*self.many, *more)
            self.assert_code(got, 2)
            self.assert_one_sentence(got, "run", "--out")
        self.assertEqual((self.folder / "run" / "environment.json").read_bytes(), environment, "the other's is left alone")
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 3)
        self.assert_valid()


class Damaged(Interrupted):
    """Record files that another hand, or a power cut, has touched."""

    # The tests of the base class are not run twice.
    for name in [n for n in dir(Interrupted) if n.startswith("test_")]:
        locals()[name] = None

    finished = None  # the folder of a whole run, made once

    def setUp(self):
        super().setUp()
        if Damaged.finished is None:
            self.assert_code(self.assay(*self.many, "--quiet"), 0)
            Damaged.finished = {p.name: p.read_bytes() for p in (self.folder / "run").iterdir()}
        (self.folder / "run").mkdir(exist_ok=True)
        for name, data in Damaged.finished.items():
            (self.folder / "run" / name).write_bytes(data)
        self.path = self.folder / "run" / "run.jsonl"
        self.whole = self.path.read_bytes().splitlines(keepends=True)

    def assert_untouched_refusal(self, *words, resume=True):
        before = self.path.read_bytes()
        got = self.assay(*self.many, *(["--resume"] if resume else []))
        self.assert_code(got, 2)
        self.assert_one_sentence(got, *words)
        self.assertEqual(self.path.read_bytes(), before)

    def test_a_torn_last_line_is_cut_off_and_its_case_is_run_again(self):
        for torn in (self.whole[40][:200], self.whole[40][:-1], b"\0" * 500, self.whole[40][:100] + b"\n"):
            with self.subTest(torn=torn[:20]):
                kept = b"".join(self.whole[:40])
                self.path.write_bytes(kept + torn)
                self.assert_completes(kept)

    def test_a_corrupt_line_in_the_middle_is_refused_with_file_and_line(self):
        self.path.write_bytes(b"".join([*self.whole[:6], self.whole[6][:80] + b"\n", *self.whole[7:]]))
        self.assert_untouched_refusal("run/run.jsonl", "line 7")

    def test_a_record_of_the_wrong_shape_is_refused_with_file_and_line(self):
        for old, new in ((b'"verdict":"pass"', b'"verdict":"perhaps"'), (b'"case":', b'"cake":'), (b'"runs":0', b'"runs":"no"')):
            with self.subTest(change=new):
                self.assertIn(old, self.whole[2])
                self.path.write_bytes(b"".join([*self.whole[:2], self.whole[2].replace(old, new), *self.whole[3:]]))
                self.assert_untouched_refusal("run/run.jsonl", "line 3")

    def test_a_newer_major_version_is_refused_and_a_newer_minor_one_is_read(self):
        for version, accepted in (("2.0", False), ("1.7", True)):
            lines = [re.sub(rb'"schema":"1[.][0-9]+"', b'"schema":"%s","news":[1]' % version.encode(), line) for line in self.whole]
            self.assertNotEqual(lines[0], self.whole[0])
            self.path.write_bytes(b"".join(lines))
            if accepted:
                self.assert_code(self.assay(*self.many, "--resume"), 0)
                self.assertEqual(len(self.records()), 150)
            else:
                self.assert_untouched_refusal("run/run.jsonl", "line 1", "2.0")

    def test_a_folder_that_holds_a_run_is_not_used_without_resume(self):
        self.assert_untouched_refusal("--resume", "--out", resume=False)


class FullDisk(Interrupted):
    for name in [n for n in dir(Interrupted) if n.startswith("test_")]:
        locals()[name] = None

    def assert_stopped_well(self, got):
        self.assert_code(got, 3)
        self.assertNotEqual(got.err, "")
        for line in got.err.splitlines():
            self.assertRegex(line, r"^assay: ")
        self.assertIn("run.jsonl", got.err)
        self.assertIn("--resume", got.err)
        self.assertRegex(got.last, r"^INCOMPLETE: ")
        self.assertGreater(self.lines_written(), 5)
        self.assertLess(self.lines_written(), 100)

    def test_a_full_disk_is_said_keeps_every_record_and_resume_completes_on_a_bigger_one(self):
        (self.folder / "run").mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(self.folder / "run")]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("only root can mount a small disk")
        try:
            got = self.assay(*self.many)
            self.assert_stopped_well(got)
            self.assert_valid()
            kept = (self.folder / "run" / "run.jsonl").read_bytes()
            again = self.assay(*self.many, "--resume")
            self.assertIn(again.code, (2, 3), "still full")
            self.assertRegex(again.err, r"\Aassay: cannot write ")
            self.assertEqual((self.folder / "run" / "run.jsonl").read_bytes(), kept)
            self.assert_valid()  # environment.json is whole, old or new
            subprocess.run(["mount", "-o", "remount,size=16m", str(self.folder / "run")], check=True)
            self.assert_completes()
        finally:
            subprocess.run(["umount", str(self.folder / "run")], check=True)

    def test_a_report_that_cannot_be_written_costs_neither_the_records_nor_the_old_report(self):
        self.stop_in_the_middle(signal.SIGINT)
        old = self.report()
        (self.folder / "disk").mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(self.folder / "disk")]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("only root can mount a small disk")
        try:
            shutil.copytree(self.folder / "run", self.folder / "disk" / "run")
            free = os.statvfs(self.folder / "disk")
            (self.folder / "disk" / "filler").write_bytes(b"x" * (free.f_bavail * free.f_bsize))
            self.many[self.many.index("run", 1)] = "disk/run"
            got = self.assay(*self.many, "--resume")
            self.assertIn(got.code, (2, 3), str(got))
            self.assertIn("cannot write", got.err)
            self.assertEqual(self.report("disk/run"), old)
            self.assertTrue(json.loads((self.folder / "disk/run/environment.json").read_text())["assay"])
        finally:
            subprocess.run(["umount", str(self.folder / "disk")], check=True)

    def test_a_record_file_that_may_not_grow_is_said_and_keeps_every_record(self):
        # What a full disk does, without a disk to fill: 100 records need about 180,000 bytes.
        (self.folder / "tiny.cases").write_text("g1:gemm:m={1,2,3,4,5,6,7,8,9,10},n={1,2,3,4,5,6,7,8,9,10},k=5\n")
        tiny = ["run", "--out", "run", "--target", "eigen", "--cases", "tiny.cases"]
        got = self.assay(*tiny, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000)))
        self.assert_stopped_well(got)
        self.assert_valid()
        kept = (self.folder / "run" / "run.jsonl").read_bytes()
        self.assert_code(self.assay(*tiny, "--resume"), 0)
        self.assertTrue((self.folder / "run" / "run.jsonl").read_bytes().startswith(kept))
        self.assertEqual(len(set(self.keys())), 100)
        self.assertEqual(len(self.keys()), 100)

    def test_a_file_size_limit_below_the_shared_memory_is_said_and_is_no_crash(self):
        # The shared memory of the worker is a file to the kernel, so the limit meets it too.
        got = self.assay(*self.many, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000)))
        self.assertIn(got.code, (2, 3), str(got))
        self.assertIn("File too large", got.err)
        self.assertNotIn("PASS", got.last)
        if self.lines_written():
            self.assert_valid()
        shutil.rmtree(self.folder / "run")


if __name__ == "__main__":
    e2e.main()
