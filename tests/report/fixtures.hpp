// SPDX-License-Identifier: Apache-2.0
// Records for the report tests, every field away from its default.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "report/record.hpp"

namespace assay::report::fixtures {

inline Comparison wrong_comparison() {
  Comparison c;
  c.compared = 262144;
  c.bad = 64, c.over_iid = 2, c.nan_unexpected = 3, c.nan_missing = 4, c.inf_mismatch = 5, c.unwritten = 6;
  c.subnormal_flushed = 7, c.overflow_open = 8;
  c.first_bad = 9007199254740993;  // 2^53 + 1: lost by a JSON number
  c.worst_index = 1536, c.worst_ulp = 9223372036854775807;
  c.worst_got_bits = "0x3f800001", c.worst_expected_bits = "0x3f800000";
  c.worst_got = 1.0000001192092896, c.worst_expected = 1;
  c.max_over_hard = 12.5, c.max_over_iid = 40.25, c.rms_over_statistic = 0.1, c.rms_over_rounding = 0.3, c.bias = -0.5;
  c.smallest_fault = 1e-6, c.blind_fraction = 0.015625;
  c.sampled = true, c.verification = "rows:16";
  return c;
}

inline Record passing(const std::string& case_id = "g1:gemm:m=8,n=8,k=8,seed=1") {
  Record r;
  r.case_id = case_id, r.op = "gemm", r.formats = "fp32", r.tags = "T01";
  r.target = "openblas";
  r.verdict = Verdict::pass;
  r.comparison = Comparison{};
  r.comparison->compared = 64, r.comparison->verification = "whole";
  r.repeats = 2, r.repeats_identical = 2;
  r.output_dims = {1, 8, 8};
  return r;
}

inline Record failing(const std::string& case_id = "g1:gemm:m=512,n=512,k=4096,seed=3") {
  Record r = passing(case_id);
  r.tags = "T11 whisper-tiny";
  r.variant = "core=Haswell", r.required = false;
  r.verdict = Verdict::fail, r.label = "WRONG", r.reason = "64 of 262144 elements lie outside the bound.";
  r.library = {"/usr/lib/libopenblasp-r0.3.21.so",
               "libopenblas.so.0",
               "00ff00ff00ff00ff00ff",
               std::string(64, 'a'),
               "OpenBLAS 0.3.21",
               "Haswell",
               37654321098765};
  r.plan = R"({"engine":7})", r.known_defect = "B9: known, fixed in 0.3.22 (issue 1)";
  r.tensors = "failures/001-gemm-openblas.safetensors";
  r.algorithm = "kernel 7", r.arithmetic = "fp32 products, fp32 sums, nearest";
  r.contract = {{"beta_zero_ignores_c", "promised: BLAS Technical Forum 2001"}, {"keeps_subnormals", "not promised"}};
  r.conditions = {{"OPENBLAS_CORETYPE", "Haswell"}, {"threads", "2"}};
  r.comparison = wrong_comparison();
  r.second = wrong_comparison();
  r.confirmation = {3, 3, 2, 1};
  r.repeats = 4, r.repeats_identical = 3;
  r.input_digest = std::string(32, '1'), r.reference_digest = std::string(32, '2'), r.output_digest = std::string(32, '3');
  r.output_tiles = {std::string(32, '4'), std::string(32, '5')};
  for (int i = 0; i < 64; ++i) r.bad_indices.push_back(3 * 512 + 448 + i);
  r.output_dims = {1, 512, 512};
  r.execute_ms = 12.75, r.reference_ms = 99.5;
  r.started = "2025-01-02T03:04:05Z";
  return r;
}

inline Record not_run(Verdict verdict, bool required, const std::string& case_id = "g1:gemm:m=8,n=8,k=8,seed=1") {
  Record r = passing(case_id);
  r.verdict = verdict, r.required = required;
  r.variant = "core=Zen";
  r.comparison.reset();
  r.reason = "This CPU has no AVX-512; run on one that has.";
  return r;
}

/// A folder that is gone with its owner.
struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "assay-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

/// A variable set for one test, put back afterwards.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~ScopedVariable() { had_ ? setenv(name_.c_str(), old_.c_str(), 1) : unsetenv(name_.c_str()); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_, old_;
  bool had_ = false;
};

}  // namespace assay::report::fixtures
