// SPDX-License-Identifier: Apache-2.0
// Softmax through its targets: the control and every correct variant pass, every planted fault does what it says and is caught.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "judged_trial.hpp"
#include "probes/ops/softmax/softmax.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

std::vector<double> values(const Trial& t) {
  std::vector<double> v;
  for (const std::uint64_t bits : t.output()) v.push_back(decode(t.problem.operands[1].dtype, bits));
  return v;
}

const std::string variants[] = {"two_pass", "reciprocal", "two_ulp", "exp2", "split", "online", "online_64"};

}  // namespace

TEST_CASE("softmax takes the families of logits and says which when another is asked for") {
  for (const Family f : logit_families()) CHECK(message(fmt::format("g1:softmax:rows=2,n=3,fill={}", name(f))).empty());
  const std::string said = message("g1:softmax:rows=2,n=3,fill=reveal");
  CHECK(said.find("'reveal'") != std::string::npos);
  CHECK(said.find("two_level") != std::string::npos);
  CHECK(message("g1:gemm:m=2,n=3,k=4,fill=all_masked").find("'all_masked'") != std::string::npos);
  CHECK(message("g1:softmax:rows=2,n=3,fill=dyadic,sigma=4").find("sigma=4") != std::string::npos);
  CHECK(message("g1:softmax:rows=2,n=3,in=f32,out=bf16").find("bf16") != std::string::npos);
  CHECK(message("g1:softmax:rows=16777216,n=16777216").find("2^40") != std::string::npos);
}

TEST_CASE("loose strides and an offset lie where the operands say") {
  const Problem p = make_problem("g1:softmax:rows=3,n=5,padx=2,pady=7,off=1,in=f16,out=f32");
  CHECK(p.operands[0].strides == std::vector<std::int64_t>{7, 1});
  CHECK(p.operands[1].strides == std::vector<std::int64_t>{12, 1});
  CHECK(storage_elements(p.operands[0]) == 1 + 2 * 7 + 5);
  CHECK(p.formats == "fp16>fp32");
}

TEST_CASE("the control and every correct variant give the hand-computed row and touch nothing else") {
  for (const char* format : {"f32", "f64"})
    for (std::size_t v = 0; v <= std::size(variants); ++v) {
      const bool control = v == std::size(variants);
      Trial t(control ? softmax::eigen_target() : softmax::model_target(),
              fmt::format("g1:softmax:rows=2,n=3,padx=1,pady=2,off=1,in={}", format), control ? "" : variants[v]);
      t.buffers.fill(t.problem, 1);
      const double row[] = {std::log(1.0), std::log(2.0), std::log(5.0)};
      const Operand& x = t.problem.operands[0];
      for (std::int64_t e = 0; e < 6; ++e)
        store_bits(x.dtype, t.buffers.images[0].storage + storage_index(x, e) * static_cast<std::int64_t>(size_bytes(x.dtype)),
                   encode(x.dtype, row[e % 3] + (e < 3 ? 0 : 100)));
      t.call->load(t.buffers.images);
      t.call->execute();
      t.call->store(t.buffers.images);
      const std::vector<double> y = values(t);
      for (std::size_t e = 0; e < 6; ++e) CHECK(y[e] == doctest::Approx(std::vector{0.125, 0.25, 0.625}[e % 3]).epsilon(1e-5));
      t.run(3);
      CHECK(disturbed_bytes(t, 3) == 0);
    }
}

TEST_CASE("no correct variant is flagged on the clean cases, nor the control") {
  int judged = 0;
  for (const std::string& id : softmax::clean_cases())
    for (std::size_t v = 0; v <= std::size(variants); ++v) {
      const bool control = v == std::size(variants);
      CAPTURE(id);
      CAPTURE(v);
      Trial t(control ? softmax::eigen_target() : softmax::model_target(), id, control ? "" : variants[v]);
      for (const std::uint64_t seed : {1, 2, 3}) {
        const Judgement j = verdict(t, seed);
        CAPTURE(j.reason);
        REQUIRE(j.verdict == report::Verdict::pass);
        ++judged;
      }
    }
  CHECK(judged > 1500);
}

TEST_CASE("clean cases cover every family in fp32, fp64 and 16 bits, and the smallest shapes") {
  std::set<std::pair<int, std::string>> seen;
  bool smallest = false;
  for (const std::string& id : softmax::clean_cases()) {
    const Problem p = make_problem(id);
    seen.emplace(format(p.operands[0].dtype).bits, p.id.word("fill"));
    smallest |= element_count(p.operands[0]) == 1;
    CHECK(id.find("seed") == std::string::npos);
  }
  CHECK(smallest);
  for (const Family f : logit_families())
    for (const int bits : {16, 32, 64}) CHECK(seen.contains({bits, std::string(name(f))}));
}

TEST_CASE("the variants differ in the last bits, so their names mean something") {
  std::set<std::vector<std::uint64_t>> results;
  for (const std::string& v : variants) results.insert(Trial(softmax::model_target(), "g1:softmax:rows=8,n=700", v).run(1));
  CHECK(results.size() == std::size(variants));
}

TEST_CASE("a fast exp that is declared passes, the same exp declared accurate is caught on dyadic logits") {
  const std::string id = "g1:softmax:rows=64,n=256,fill=dyadic";
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Trial declared(softmax::model_target(), id, "exp2"), hidden(softmax::planted_target(), id, "fast_exp");
    CHECK(verdict(declared, seed).verdict == report::Verdict::pass);
    CHECK(verdict(hidden, seed).verdict == report::Verdict::fail);
  }
}

TEST_CASE("a fully masked row: NaN or zero as promised, policy where nothing is promised, anything else is wrong") {
  const Problem p = make_problem("g1:softmax:rows=4,n=8,fill=all_masked");
  Measurement m;
  m.repeats = m.repeats_identical = 1;
  m.first.compared = 32, m.first.two_values = 8;
  const Promise yes{true, "test"};
  const auto with = [&](bool nan_promised, bool zero_promised, std::int64_t zeros) {
    m.report.contract = {};
    if (nan_promised) m.report.contract.masked_row_is_nan = yes;
    if (zero_promised) m.report.contract.masked_row_is_zero = yes;
    m.first.took_other = zeros;
    return assay::judge(p, m);
  };
  CHECK(with(true, false, 0).verdict == report::Verdict::pass);
  CHECK(with(true, false, 8).verdict == report::Verdict::fail);
  CHECK(with(false, true, 8).verdict == report::Verdict::pass);
  CHECK(with(false, true, 0).verdict == report::Verdict::fail);
  CHECK(with(false, true, 4).verdict == report::Verdict::fail);
  CHECK(with(false, false, 0).label.empty());
  CHECK(with(false, false, 8).verdict == report::Verdict::pass);
  CHECK(with(false, false, 8).label == "POLICY");
  // Through the comparison: zeros are seen, 1/n is wrong.
  Trial online(softmax::model_target(), "g1:softmax:rows=4,n=8,fill=all_masked", "online");
  online.run(1);
  const Discrepancy d = assay::trial::judge(online, truth(online.problem, 1), online.call->report().arithmetic);
  CHECK(d.two_values == 8);
  CHECK(d.took_other == 8);
  Trial sentinel(softmax::planted_target(), "g1:softmax:rows=4,n=8,fill=all_masked", "sentinel");
  sentinel.run(1);
  CHECK(assay::trial::judge(sentinel, truth(sentinel.problem, 1), {}).nan_missing == 8);
}

TEST_CASE("faults do what they say") {
  const std::string id = "g1:softmax:rows=16,n=130";
  const auto rows_changed = [](const std::string& case_id, const std::string& fault) {
    Trial right(softmax::planted_target(), case_id, "none"), wrong(softmax::planted_target(), case_id, fault);
    const auto good = right.run(1), bad = wrong.run(1);
    CHECK(disturbed_bytes(wrong, 1) == (fault == "gap_written" ? 15 * 4 : 0));
    std::set<std::size_t> rows;
    const auto n = static_cast<std::size_t>(right.problem.id.integer("n"));
    for (std::size_t e = 0; e < good.size(); ++e)
      if (good[e] != bad[e]) rows.insert(e / n);
    return rows.size();
  };
  CHECK(rows_changed(id, "wrong_row") == 1);
  CHECK(rows_changed(id, "stale_sum") == 15);
  CHECK(rows_changed(id, "last_element_lost") == 16);
  CHECK(rows_changed(id, "tail_counted") == 16);
  CHECK(rows_changed("g1:softmax:rows=16,n=128", "tail_counted") == 0);
  CHECK(rows_changed(id + ",pady=2", "gap_written") == 0);
  CHECK(rows_changed(id, "stride_ignored") == 0);
  CHECK(rows_changed(id + ",padx=1", "stride_ignored") == 15);
  CHECK(rows_changed(id, "stale_max") == 0);  // right until the data changes
  Trial tail(softmax::planted_target(), id, "tail_unwritten");
  const auto bits = tail.run(1, std::byte{0x7F});
  CHECK(std::count(bits.begin(), bits.end(), 0x7F7F7F7F) == 16 * 2);
  CHECK(softmax::planted_target().refuses(make_problem(id),
                                          {.target = "planted", .variant = "nosuch", .library = {}, .environment = {}}));
  CHECK_THROWS_AS(Trial(softmax::model_target(), id, "nosuch"), Unsupported);
}

TEST_CASE("every fault of softmax is seen in one of its cases, and nothing without a fault") {
  CHECK(softmax::planted_faults().size() >= 8);
  check_every_fault_is_seen(softmax::planted_target(), softmax::planted_faults(), 3);
}
