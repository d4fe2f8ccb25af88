#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tensors of a failure: kept once per kind, replayed, and read by the published safetensors package as by ours.

Class Package needs that package (tools/fetch_wheels.sh); without it, called alone, it exits 77, which is "not run"."""
import ctypes
import importlib.util
import json
import os
import pathlib
import struct
import sys
import unittest

import e2e

FAULT, CASE = "planted:zero_element", "g1:gemm:m=9,n=7,k=5,in=bf16,out=f32,ta=t,pada=3,beta=2,fill=integer"


def published():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "assay" / "wheels" / "safetensors-0.8.0" / "lib"
    if not (cache / "__init__.py").exists():
        return None
    spec = importlib.util.spec_from_file_location("safetensors", cache / "__init__.py", submodule_search_locations=[str(cache)])
    module = importlib.util.module_from_spec(spec)
    sys.modules["safetensors"] = module
    try:
        spec.loader.exec_module(module)
    except ImportError:  # of another Python or processor
        return None
    return module


PUBLISHED = published()


def parse(data):
    """A third reader: header and tensors of a file, as dictionaries."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    metadata = header.pop("__metadata__", {})
    return metadata, {k: (v["dtype"], v["shape"], body[slice(*v["data_offsets"])]) for k, v in header.items()}


class Tensors(e2e.EndToEnd):
    def fail(self, *cases, targets=(FAULT,), out="run"):  # noqa: A003
        self.assert_code(self.run_cases(targets, cases or (CASE,), out=out), 1)
        self.assert_valid(out)
        return [r for r in self.records(out) if r["tensors"]]

    def test_a_failure_keeps_what_went_in_what_came_and_what_is_right(self):
        (record,) = self.fail()
        self.assertEqual(record["tensors"], "failures/001-gemm-planted_zero_element.safetensors")
        metadata, tensors = parse((self.folder / "run" / record["tensors"]).read_bytes())
        self.assertEqual({k: v[:2] for k, v in tensors.items()},
                         {"A": ("BF16", [1, 9, 5]), "B": ("BF16", [1, 5, 7]), "C.before": ("F32", [1, 9, 7]), "C": ("F32", [1, 9, 7]),
                          "C.expected": ("F64", [1, 9, 7]), "C.bound": ("F64", [1, 9, 7])})
        numbers = {"BF16": lambda b: [struct.unpack("<f", b"\0\0" + b[i:i + 2])[0] for i in range(0, len(b), 2)],
                   "F32": lambda b: list(struct.unpack(f"<{len(b) // 4}f", b)), "F64": lambda b: list(struct.unpack(f"<{len(b) // 8}d", b))}
        a, b, before, got, right, bound = (numbers[tensors[k][0]](tensors[k][2]) for k in ("A", "B", "C.before", "C", "C.expected", "C.bound"))
        for i in range(9):
            for j in range(7):
                self.assertEqual(sum(a[i * 5 + k] * b[k * 7 + j] for k in range(5)) + 2 * before[i * 7 + j], right[i * 7 + j])
        wrong = [i for i in range(63) if got[i] != right[i]]
        self.assertEqual([str(i) for i in wrong], record["bad_indices"])
        self.assertEqual(set(bound), {0})
        self.assertEqual((metadata["case"], metadata["target"], metadata["variant"], metadata["call"]), (CASE, "planted", "zero_element", "first"))
        self.assertIn(record["tensors"], (self.folder / "run" / "report.md").read_text(encoding="utf-8"))

    def test_one_file_per_kind_of_failure_and_none_for_what_passes(self):
        cases = ["g1:gemm:m=9,n=7,k=5,fill=integer", "g1:gemm:m=8,n=7,k=5,fill=integer", "g1:gemm:m=8,n=7,k=5,in=f64,fill=integer"]
        kept = self.fail(*cases, targets=(FAULT, "eigen"))
        self.assertEqual([r["formats"] for r in kept], ["fp32", "fp64"])
        self.assertEqual(len(list((self.folder / "run" / "failures").iterdir())), 2)

    def test_what_cannot_be_kept_is_said_and_costs_no_record(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "failures").write_text("in the way", encoding="utf-8")
        got = self.run_cases([FAULT], [CASE])
        self.assert_code(got, 1)
        self.assert_one_sentence(got, "cannot write", "failures/001")
        self.assertEqual(self.records()[0]["tensors"], "")

    def test_replay_runs_the_case_of_a_file_and_refuses_other_inputs(self):
        (record,) = self.fail()
        file = self.folder / "run" / record["tensors"]
        got = self.assay("replay", file, "--target", FAULT, "--target", "eigen", "--out", "again")
        self.assert_code(got, 1)
        self.assertEqual({(r["target"], r["verdict"]) for r in self.records("again")}, {("planted", "fail"), ("eigen", "pass")})
        data = bytearray(file.read_bytes())
        metadata, tensors = parse(bytes(data))
        at = bytes(data).find(tensors["A"][2])
        data[at] ^= 1
        (self.folder / "other.safetensors").write_bytes(data)
        got = self.assay("replay", "other.safetensors", "--target", "eigen")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "other.safetensors: its input A is not what this assay makes of g1:gemm")
        (self.folder / "short.safetensors").write_bytes(data[:100])
        got = self.assay("replay", "short.safetensors")
        self.assert_code(got, 2)
        self.assert_one_sentence(got, "short.safetensors", "its header claims")


@unittest.skipUnless(PUBLISHED, "the package safetensors is not here: tools/fetch_wheels.sh fetches it")
class Package(e2e.EndToEnd):
    fail = Tensors.fail

    def test_the_published_package_reads_what_was_written(self):
        (record,) = self.fail()
        data = (self.folder / "run" / record["tensors"]).read_bytes()
        _, ours = parse(data)
        theirs = {name: (t["dtype"], list(t["shape"]), bytes(t["data"])) for name, t in PUBLISHED.deserialize(data)}
        self.assertEqual(theirs, ours)

    def test_what_the_published_package_writes_is_replayed(self):
        (record,) = self.fail()
        metadata, tensors = parse((self.folder / "run" / record["tensors"]).read_bytes())
        names = {"BF16": "bfloat16", "F32": "float32", "F64": "float64"}
        kept = {k: ctypes.create_string_buffer(d, len(d)) for k, (_, _, d) in tensors.items()}  # alive while it is written
        again = PUBLISHED.serialize({k: PUBLISHED.TensorSpec(dtype=names[t], shape=s, data_ptr=ctypes.addressof(kept[k]), data_len=len(d))
                                     for k, (t, s, d) in tensors.items()}, metadata=metadata)
        (self.folder / "theirs.safetensors").write_bytes(again)
        self.assert_code(self.assay("replay", "theirs.safetensors", "--target", "eigen", "--out", "again"), 0)

    def test_both_refuse_what_is_malformed(self):
        (record,) = self.fail()
        good = (self.folder / "run" / record["tensors"]).read_bytes()
        (length,) = struct.unpack("<Q", good[:8])
        header = json.loads(good[8:8 + length])
        tensor = header["A"]

        def with_header(change):
            changed = json.loads(json.dumps(header))
            change(changed)
            text = json.dumps(changed).encode()
            return struct.pack("<Q", len(text)) + text + good[8 + length:]
        broken = {"cut": good[:-1], "longer": good + b"x", "no header": good[:7], "huge": b"\xff" * 8 + good[8:],
                  "shape": with_header(lambda h: h["A"].update(shape=[1, 9, 6])), "dtype": with_header(lambda h: h["A"].update(dtype="F3")),
                  "overlap": with_header(lambda h: h["B"].update(tensor)), "gone": with_header(lambda h: h.pop("A")),
                  "negative": with_header(lambda h: h["A"].update(shape=[-1]))}
        for what, data in broken.items():
            with self.subTest(what=what):
                with self.assertRaises(Exception):
                    PUBLISHED.deserialize(data)
                (self.folder / "broken.safetensors").write_bytes(data)
                got = self.assay("replay", "broken.safetensors")
                self.assert_code(got, 2)
                self.assert_one_sentence(got, "broken.safetensors: ")


if __name__ == "__main__":
    e2e.main()
