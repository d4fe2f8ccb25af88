#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""assay report --format junit, opened by readers that are not ours: Python's xml.etree (expat), and junitparser where it is
installed. Without junitparser the tests of class Junitparser, called alone, exit 77, which is "not run"."""
import json
import random
import sys
import xml.etree.ElementTree

import e2e
from e2e import SMALL, TINY

try:
    import junitparser
except ImportError:
    junitparser = None

FP64 = "g1:gemm:m=8,n=8,k=8,in=f64"
ELEMENT = {"pass": None, "suspect": "system-out", "fail": "failure", "fault": "error", "unsupported": "skipped",
           "unavailable": "skipped"}


class Shared(e2e.EndToEnd):
    def run_of_every_kind(self):
        """Passes, failures, faults, suspects and unsupported results, really made; an unavailable one is added."""
        self.assert_code(self.run_cases(["eigen", "sim", "planted:zero_element", "planted:segfault", "planted:repeat_differs"],
                                        [TINY, SMALL, FP64, "g1:gemm:m=48,n=40,k=64,fill=normal"]), 1)
        missing = dict(self.records()[0], target="mkl", variant="", verdict="unavailable", label="", reason="no such library")
        missing.pop("comparison", None)
        with open(self.folder / "run" / "run.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(missing) + "\n")
        verdicts = {r["verdict"] for r in self.records()}
        self.assertEqual(verdicts, set(ELEMENT), "every verdict occurs")

    def junit(self, *options):
        got = self.assay("report", "run", "--format", "junit", *options)
        self.assert_code(got, 0)
        self.assertEqual(got.err, "")
        return got.out

    def expected(self, element, strict=False):
        return sum(("failure" if strict and r["verdict"] == "suspect" else ELEMENT[r["verdict"]]) == element
                   for r in self.records())


class Etree(Shared):
    def test_every_result_is_a_testcase_with_the_element_of_its_verdict(self):
        self.run_of_every_kind()
        for strict in (False, True):
            root = xml.etree.ElementTree.fromstring(self.junit(*["--strict"] * strict))
            self.assertEqual(root.tag, "testsuites")
            (suite,) = root.findall("testsuite")
            self.assertEqual(suite.get("name"), "gemm")
            cases = {(c.get("classname"), c.get("name")): c for c in suite.findall("testcase")}
            self.assertEqual(len(cases), len(self.records()))
            for record in self.records():
                case = cases["gemm." + e2e.full_target(record), record["case"]]
                element = "failure" if strict and record["verdict"] == "suspect" else ELEMENT[record["verdict"]]
                if element or not record["label"]:
                    self.assertEqual([child.tag for child in case], [element] if element else [], record)
                if element in ("failure", "error"):
                    self.assertEqual(case[0].get("message"), record["reason"])
                    self.assertIn(f"again: assay run --target {e2e.full_target(record)}", case[0].text)
            for counts in (root, suite):
                for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
                    self.assertEqual(int(counts.get(attribute)), self.expected(element, strict), attribute)
                self.assertEqual(int(counts.get("tests")), len(self.records()))
            properties = {p.get("name"): p.get("value") for p in suite.find("properties")}
            self.assertEqual(properties["assay.commit"], self.environment_of()["assay"]["commit"])
            self.assertEqual(properties["system.cpu"], self.environment_of()["system"]["cpu"])

    def test_texts_of_any_characters_arrive_as_one_line_each(self):
        self.assert_code(self.run_cases(["planted:zero_element"], [SMALL]), 1)
        (record,) = self.records()
        draw = random.Random(20250101)
        ranges = [(0, 0x20), (0x20, 0x80), (0x7F, 0xA0), (0xA0, 0xD800), (0xE000, 0xFFFE), (0xFFFE, 0x10000), (0x10000, 0x110000)]
        texts = ["]]> & < > \" ' \x00\x01\x1b[31m\x85\ufffe\uffff\u2028", "<![CDATA[", "&#0;&lt;", "<!--", "<?xml?>"]
        texts += ["".join(chr(draw.randrange(*draw.choice(ranges))) for _ in range(60)) for _ in range(300)]
        lines = [json.dumps(dict(record, case=f"g1:gemm:m={i},n=1,k=1", reason=text, label=text[:9], algorithm=text))
                 for i, text in enumerate(texts)]
        (self.folder / "run" / "run.jsonl").write_text("\n".join(lines) + "\n")
        environment = self.environment_of()
        environment["system"]["os"] = texts[0]
        (self.folder / "run" / "environment.json").write_text(json.dumps(environment))

        def printable(text):
            return "".join(" " if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 else "\ufffd" if c in "\ufffe\uffff" else c for c in text)
        got = self.junit()
        self.assertEqual({c for c in got if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0}, {"\n"})
        cases = list(xml.etree.ElementTree.fromstring(got).iter("testcase"))
        self.assertEqual(len(cases), len(texts))
        for case, text in zip(cases, texts):
            (failure,) = case
            self.assertEqual(failure.get("message"), printable(text))
            self.assertEqual(failure.get("type"), printable(text[:9]))
            self.assertIn(f"\nalgorithm: {printable(text)}\n", failure.text)
        (value,) = [p.get("value") for p in xml.etree.ElementTree.fromstring(got).iter("property") if p.get("name") == "system.os"]
        self.assertEqual(value, printable(texts[0]))

    def test_a_run_broken_off_has_an_error_and_one_that_is_none_is_refused(self):
        self.assert_code(self.run_cases(["eigen"], [TINY]), 0)
        self.assertEqual(xml.etree.ElementTree.fromstring(self.junit()).get("errors"), "0")
        with open(self.folder / "run" / "run.jsonl", "a", encoding="utf-8") as file:
            file.write('{"schema"')
        root = xml.etree.ElementTree.fromstring(self.junit())
        self.assertEqual((root.get("tests"), root.get("errors")), ("2", "1"))
        self.assertEqual(root.find("testsuite[@name='assay']/testcase/error").get("type"), "incomplete")
        (self.folder / "run" / "run.jsonl").write_text("")
        for folder, word in (("run", "no result"), ("nowhere", "no record file")):
            got = self.assay("report", folder, "--format", "junit")
            self.assert_code(got, 2)
            self.assert_one_sentence(got, word)
            self.assertEqual(got.out, "")

    def test_a_report_that_does_not_fit_on_the_disk_is_not_called_written(self):
        self.assert_code(self.run_cases(["eigen"], [TINY]), 0)
        got = self.shell("assay report run --format junit > /dev/full")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "No space left")


class Junitparser(Shared):
    def test_junitparser_reads_the_same_results(self):
        self.run_of_every_kind()
        (self.folder / "run.xml").write_text(self.junit(), encoding="utf-8")
        read = junitparser.JUnitXml.fromfile(str(self.folder / "run.xml"))
        self.assertEqual((read.tests, read.failures, read.errors, read.skipped),
                         (len(self.records()), *(self.expected(e) for e in ("failure", "error", "skipped"))))
        kinds = {"failure": junitparser.Failure, "error": junitparser.Error, "skipped": junitparser.Skipped}
        found = {}
        for suite in read:
            self.assertGreater(len(list(suite.properties())), 10)
            for case in suite:
                result = case.result if isinstance(case.result, list) else [case.result] if case.result else []
                found[case.classname, case.name] = result[0] if result else None
        self.assertEqual(len(found), len(self.records()))
        for record in self.records():
            result = found["gemm." + e2e.full_target(record), record["case"]]
            kind = kinds.get(ELEMENT[record["verdict"]])
            self.assertIs(type(result), kind or type(None), record)
            if kind in (junitparser.Failure, junitparser.Error):
                self.assertEqual(result.message, record["reason"])


if __name__ == "__main__":
    if junitparser is None and "Junitparser." in sys.argv:
        print("junitparser is not installed")
        sys.exit(77)
    e2e.main()
