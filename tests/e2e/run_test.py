#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that passes: its folder, its last line, its case lists, and what must be the same every time."""
import json
import os
import pty
import select
import shutil
import socket
import subprocess

import e2e
from e2e import SMALL, TINY

FEW = [TINY, SMALL, "g1:gemm:m=33,n=17,k=29,order=row,ta=t,padc=7,in=f64,fill=normal"]


class AGoodRun(e2e.EndToEnd):
    def test_leaves_a_folder_that_follows_the_schema_and_ends_with_verdict_and_next_command(self):
        got = self.run_cases(["eigen"], FEW)
        self.assert_code(got, 0)
        self.assertEqual(sorted(p.name for p in (self.folder / "run").iterdir()), ["environment.json", "report.md", "run.jsonl"])
        self.assert_valid()
        self.assertEqual([r["verdict"] for r in self.records()], ["pass"] * 3)
        self.assertRegex(got.last, r"^PASS: 3 results within bound: .*; no GPU was probed\. Next: assay ")
        self.assertIn("3 results within bound", self.report())
        self.assertEqual(e2e.next_command(got), "assay selftest")

    def test_says_nothing_when_quiet(self):
        got = self.run_cases(["eigen"], FEW, "--quiet")
        self.assertEqual((got.code, got.out, got.err), (0, "", ""))
        self.assertTrue((self.folder / "run" / "report.md").exists())

    def test_is_not_silent_about_a_failure_when_quiet(self):
        got = self.run_cases(["planted:zero_element"], [SMALL], "--quiet")
        self.assert_code(got, 1)
        self.assertRegex(got.last, r"^FAIL: ")
        self.assertIn("assay run --target planted:zero_element", got.out)

    def test_without_out_makes_a_new_folder_under_assay_runs_each_time(self):
        for count in (1, 2):
            self.assert_code(self.assay("run", "--target", "eigen", "--case", TINY), 0)
            self.assertEqual(len(list((self.folder / "assay-runs").glob("*/report.md"))), count)

    def test_replays_one_case_with_the_same_bits_in_another_process_and_under_other_thread_counts(self):
        seen = set()
        for index, threads in enumerate(("1", "2", None)):
            env = self.environment(**({"OMP_NUM_THREADS": threads} if threads else {}))
            self.assert_code(self.run_cases(["eigen"], ["g1:gemm:m=65,n=47,k=300"], out=f"r{index}", env=env), 0)
            (record,) = self.records(f"r{index}")
            seen.add(tuple(record[d] for d in ("case", "input_digest", "reference_digest", "output_digest")))
        self.assertEqual(len(seen), 1, seen)
        self.assertTrue(all(len(digest) == 32 for digest in next(iter(seen))[1:]))

    def test_other_seeds_give_other_inputs(self):
        self.run_cases(["eigen"], [SMALL, SMALL + ",seed=2"])
        first, second = self.records()
        self.assertNotEqual(first["input_digest"], second["input_digest"])

    def test_counts_a_suspect_only_under_strict(self):
        case = "g1:gemm:m=48,n=40,k=64,fill=normal"
        loose = self.run_cases(["planted:repeat_differs"], [case])
        (record,) = self.records()
        self.assertEqual((record["verdict"], record["label"]), ("suspect", "NONDETERMINISTIC"))
        self.assert_code(loose, 0)
        self.assert_code(self.run_cases(["planted:repeat_differs"], [case], "--strict", out="strict"), 1)

    def test_says_what_it_does_not_cover(self):
        got = self.run_cases(["eigen", "sim"], ["g1:gemm:m=8,n=8,k=8,in=f64"])
        self.assert_code(got, 0)
        self.assertEqual(self.by_target()["sim"]["verdict"], "unsupported")
        self.assertIn("f64", self.by_target()["sim"]["reason"].replace("fp64", "f64"))
        self.assertIn("Not run is not passed", self.report())


class CaseLists(e2e.EndToEnd):
    def cases_run(self, out="run"):
        return [r["case"] for r in self.records(out)]

    def test_a_list_of_the_user_adds_cases_without_a_rebuild(self):
        (self.folder / "mine.cases").write_text(f"# my shapes\n{TINY} | mine\n[standard]\ng1:gemm:m={{2,3}},n=4,k=5 | mine\n")
        self.assert_code(self.assay("run", "--target", "eigen", "--cases", "mine.cases", "--out", "run"), 0)
        self.assertEqual(self.cases_run(), [TINY, "g1:gemm:m=2,n=4,k=5", "g1:gemm:m=3,n=4,k=5"])
        self.assertEqual({r["tags"] for r in self.records()}, {"mine"})

    def test_a_case_runs_alone_and_beside_a_list(self):
        (self.folder / "mine.cases").write_text("g1:gemm:m=2,n=4,k=5\n")
        self.run_cases(["eigen"], [TINY], out="alone")
        self.assertEqual(self.cases_run("alone"), [TINY])
        self.run_cases(["eigen"], [TINY], "--cases", "mine.cases", out="both")
        self.assertEqual(self.cases_run("both"), [TINY, "g1:gemm:m=2,n=4,k=5"])

    def test_one_case_spelled_in_two_ways_runs_once_under_its_canonical_name(self):
        self.run_cases(["eigen"], ["g1:gemm:k=16,n=6,m=8,fill=integer,seed=1", TINY])
        self.assertEqual(self.cases_run(), [TINY])

    def test_the_program_copied_alone_has_its_lists_inside(self):
        here = self.folder / "elsewhere"
        here.mkdir()
        copy = shutil.copy2(e2e.ASSAY, here / "assay")
        inside, beside = (self.assay("list", "cases", program=p).out for p in (copy, e2e.ASSAY))
        self.assertGreater(inside.count("\n"), 1000)
        self.assertEqual(inside, beside)
        self.assert_code(self.run_cases(["eigen"], [TINY], program=copy), 0)

    def test_an_edited_list_beside_the_program_wins(self):
        (self.folder / "cases").mkdir()
        copy = shutil.copy2(e2e.ASSAY, self.folder / "assay")
        (self.folder / "cases" / "gemm.cases").write_text(f"[quick]\n{TINY} | edited\n")
        self.assertEqual(self.assay("list", "cases", "--op", "gemm", program=copy).out, f"{TINY} | edited\n")
        self.assert_code(self.assay("run", "--op", "gemm", "--target", "eigen", "--out", "run", program=copy), 0)
        self.assertEqual(self.cases_run(), [TINY])

    def test_tags_and_levels_select(self):
        listed = self.assay("list", "cases", "--level", "quick", "--tag", "whisper").out.splitlines()
        self.assertTrue(listed)
        self.assertTrue(all("whisper" in line for line in listed))
        levels = [self.assay("list", "cases", "--level", level).out.count("\n") for level in ("quick", "standard", "deep")]
        self.assertEqual(levels, sorted(set(levels)), "each level holds the ones before it and more")


class WhatMustNotLeak(e2e.EndToEnd):
    def test_no_user_host_or_home_is_in_any_file_of_the_folder(self):
        home = self.folder / "home" / "secretuser"
        home.mkdir(parents=True)
        library = shutil.copy2(e2e.FAKES / "fake_openblas.so", home / "libopenblas.so")
        env = self.environment(HOME=str(home), USER="secretuser", LOGNAME="secretuser", LD_LIBRARY_PATH=str(home),
                               OPENBLAS_NUM_THREADS="2")
        command = [str(e2e.ASSAY), "run", "--libraries", f"openblas={library}", "--target", "openblas", "--target",
                   "planted:zero_element", "--case", SMALL, "--out", str(home / "run"), "--profile", str(home / "gate.toml")]
        (home / "gate.toml").write_text('profile = 1\n[[waiver]]\ntarget = "*"\nwhen = "op=gemm"\nreason = "old"\nexpires = 2020-01-01\n',
                                        encoding="utf-8")
        secrets = ["secretuser", str(home)]
        host = socket.gethostname()
        if os.geteuid() == 0 and subprocess.run(["unshare", "-u", "true"], capture_output=True).returncode == 0:
            command = ["unshare", "-u", "sh", "-c", 'hostname secrethost.example.org && exec "$@"', "sh", *command]
            secrets += ["secrethost", "example.org"]
        elif len(host) >= 8:
            secrets.append(host)
        done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        files = sorted(f for f in (home / "run").rglob("*") if f.is_file())
        self.assertEqual([f.name for f in files if f.parent.name == "run"], ["environment.json", "report.md", "run.jsonl"])
        self.assertEqual({f.suffix for f in files if f.parent.name == "failures"}, {".safetensors"})
        for file in files:
            content = file.read_bytes()
            for secret in secrets:
                self.assertNotIn(secret.encode(), content, file.name)
        self.assertIn("~/gate.toml line 2", (home / "run" / "report.md").read_text(encoding="utf-8").replace("\\", ""))
        self.assertIn("~/libopenblas.so", (home / "run" / "run.jsonl").read_text(encoding="utf-8"))


class Terminals(e2e.EndToEnd):
    def in_a_terminal(self, *arguments, **variables):
        """What a terminal would receive."""
        controller, terminal = pty.openpty()
        process = subprocess.Popen([e2e.ASSAY, *arguments], cwd=self.folder, stdin=terminal, stdout=terminal, stderr=terminal,
                                   env=self.environment(TERM="xterm", **variables))
        os.close(terminal)
        text = b""
        while select.select([controller], [], [], 60)[0]:
            try:
                piece = os.read(controller, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece
        os.close(controller)
        self.assertEqual(process.wait(timeout=60), 0)
        return text.decode()

    def test_progress_with_time_left_is_one_rewritten_line_on_a_terminal(self):
        text = self.in_a_terminal("run", "--target", "eigen", "--case", TINY, "--case", SMALL)
        self.assertRegex(text, r"\r\x1b\[K0/2 cases, \d+ s, about \d+ s left")
        self.assertIn("\x1b[", text)
        self.assertRegex(text.rstrip().splitlines()[-1], r"PASS: ")

    def test_ci_output_has_no_control_codes(self):
        self.assertNotIn("\x1b", self.in_a_terminal("run", "--ci", "--target", "eigen", "--case", TINY))

    def test_no_color_is_respected(self):
        self.assertNotRegex(self.in_a_terminal("run", "--target", "eigen", "--case", TINY, NO_COLOR="1"), r"\x1b\[[0-9;]*m")

    def test_a_reader_that_goes_away_is_no_crash(self):
        piped = self.shell("{ assay list cases --level deep; echo code $? >&2; } | head -n 1")
        self.assertEqual(piped.err, "code 0\n")
        self.assertTrue(piped.out.startswith("g1:gemm:"))

    def test_a_verdict_that_cannot_be_printed_is_said_and_the_folder_is_whole(self):
        got = self.shell(f"assay run --target eigen --target planted:zero_element --case {SMALL} --out run > /dev/full")
        self.assertNotIn("terminate", got.err)
        self.assert_code(got, 1)
        self.assert_one_sentence(got, "No space left on device")
        self.assert_valid()
        self.assertIn("planted:zero_element", "".join(e2e.reproducers(self.report())))


class OtherCommands(e2e.EndToEnd):
    def test_help_version_and_lists_answer_on_standard_output(self):
        for arguments in (["--help"], ["--version"], ["run", "--help"], ["list", "ops"], ["list", "targets"], ["env"]):
            got = self.assay(*arguments)
            self.assert_code(got, 0)
            self.assertTrue(got.out, arguments)
            self.assertEqual(got.err, "", arguments)
        self.assertIn("Exit codes", self.assay("--help").out)

    def test_env_prints_what_a_run_would_record(self):
        env = json.loads(self.assay("env", "--json").out)
        self.run_cases(["eigen"], [TINY])
        recorded = self.environment_of()
        self.assertEqual({k: env[k] for k in ("schema", "assay", "system", "variables")},
                         {k: recorded[k] for k in ("schema", "assay", "system", "variables")})


if __name__ == "__main__":
    e2e.main()
