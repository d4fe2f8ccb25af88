// SPDX-License-Identifier: Apache-2.0
// conv_transpose1d through its targets: the control, OpenBLAS's stand-in and every correct variant pass, every planted fault
// does what it says and is caught.
#include <fmt/format.h>

#include <set>

#include "fakes.hpp"
#include "judged_trial.hpp"
#include "probes/ops/conv_transpose1d/conv_transpose1d.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

const std::string op = "g1:conv_transpose1d:";

const std::string variants[] = {"scatter", "gather", "reversed", "col2im", "zero_inserted", "split_k4"};

/// Bit for bit the true result on integers, and nothing else touched.
void check_exact(Trial& t) {
  for (const std::uint64_t seed : {1, 2}) {
    std::vector<std::uint64_t> got = t.run(seed);
    for (std::uint64_t& bits : got)
      if (bits << (65 - format(t.problem.operands[output_index(t.problem)].dtype).bits) == 0) bits = 0;  // -0 equals +0
    REQUIRE(got == rounded_truth(t.problem, seed));
    REQUIRE(disturbed_bytes(t, seed) == 0);
  }
}

std::vector<std::string> exact_shapes() {
  std::vector<std::string> ids;
  for (const char* layout : {"ncl", "nlc"})
    for (const char* formats : {"in=f32", "in=f64", "in=bf16", "in=bf16,out=f32", "in=f16,out=f32"})
      for (const char* rest :
           {"cin=1,cout=1,l=1,k=1", "n=0,cin=2,cout=1,l=3,k=2", "n=2,cin=3,cout=5,l=7,k=4,stride=2,padl=1,padr=1,bias=1",
            "n=2,cin=6,cout=4,l=9,k=5,stride=3,dilation=2,padl=4,padr=1,outpad=2,groups=2,gapx=3,gapy=2,off=1",
            "cin=4,cout=4,l=5,k=3,dilation=4,padl=3,groups=4,bias=1,gapy=1", "cin=2,cout=3,l=5,k=2,stride=5,outpad=4,bias=1",
            "cin=3,cout=2,l=2,k=9,stride=4,dilation=6,padr=5", "cin=2,cout=2,l=3,k=7,padl=3,padr=3"})
        ids.push_back(fmt::format("{}{},layout={},{},fill=integer", op, rest, layout, formats));
  return ids;
}

}  // namespace

TEST_CASE("impossible cases of conv_transpose1d are refused in one sentence that names the keys") {
  CHECK(message(op + "cin=4,cout=6,l=3,k=2,groups=2").empty());
  CHECK(contains(message(op + "cin=4,cout=6,l=3,k=2,groups=4"), "cout=6"));
  CHECK(contains(message(op + "cin=3,cout=6,l=3,k=2,groups=2"), "cin=3"));
  CHECK(message(op + "cin=1,cout=1,l=3,k=2,stride=2,dilation=3,outpad=2").empty());
  CHECK(contains(message(op + "cin=1,cout=1,l=3,k=2,stride=2,outpad=2"), "outpad=2"));
  CHECK(contains(message(op + "cin=1,cout=1,l=3,k=2,padl=2,padr=2"), "crop the whole output"));
  CHECK(contains(message(op + "cin=1,cout=1,l=3,k=2,out=bf16"), "bf16"));
  CHECK(contains(message(op + "cin=1,cout=16777216,l=16777216,k=1"), "2^40"));
  CHECK(contains(message(op + "cin=16777216,cout=16777216,l=1,k=1"), "2^40"));
  CHECK_FALSE(message(op + "cin=0,cout=1,l=3,k=2").empty());
  CHECK_FALSE(message(op + "cin=1,cout=1,l=3,k=2,fill=masked").empty());
}

TEST_CASE("operands of conv_transpose1d lie where the layout says") {
  const Problem first = make_problem(op + "n=2,cin=3,cout=4,l=5,k=2,stride=2,gapx=1,gapy=3,bias=1,in=f16,out=f32");
  CHECK(first.operands[0].strides == std::vector<std::int64_t>{18, 6, 1});
  CHECK(first.operands[1].strides == std::vector<std::int64_t>{8, 2, 1});
  CHECK(first.operands[2].dims == std::vector<std::int64_t>{4});
  CHECK(first.operands[2].dtype == DType::f16);
  CHECK(first.operands[3].dims == std::vector<std::int64_t>{2, 4, 10});
  CHECK(first.operands[3].strides == std::vector<std::int64_t>{52, 13, 1});
  CHECK(first.operands[3].span == 52 + 3 * 13 + 10);
  CHECK(first.flops == 2.0 * 2 * 3 * 4 * 5 * 2);
  CHECK(first.formats == "fp16>fp32");
  const Problem last = make_problem(op + "n=2,cin=3,cout=4,l=5,k=2,stride=2,gapx=1,gapy=3,layout=nlc");
  CHECK(last.operands[0].strides == std::vector<std::int64_t>{20, 1, 4});
  CHECK(last.operands[1].strides == std::vector<std::int64_t>{8, 1, 4});
  CHECK(last.operands[2].strides == std::vector<std::int64_t>{70, 1, 7});
  const conv_transpose1d::Call c = conv_transpose1d::call_of(last);
  CHECK(c.x_row == 4);
  CHECK(c.y_row == 7);
  CHECK(c.lout == 10);
}

TEST_CASE("the control, every variant and OpenBLAS's stand-in are exact on integers in every layout and touch nothing else") {
  for (const std::string& id : exact_shapes()) {
    CAPTURE(id);
    Trial control(conv_transpose1d::eigen_target(), id, "");
    check_exact(control);
    for (const std::string& v : variants) {
      CAPTURE(v);
      Trial t(conv_transpose1d::model_target(), id, v);
      check_exact(t);
    }
    Trial none(conv_transpose1d::planted_target(), id, "none");
    check_exact(none);
    const Target blas = conv_transpose1d::cblas_target();
    const bool bf16 = none.problem.operands[0].dtype == DType::bf16;
    const TargetSpec spec{
        .target = "openblas", .variant = {}, .library = fake(bf16 ? "fake_scipy64" : "fake_openblas"), .environment = {}};
    if (none.problem.operands[0].dtype == DType::f16) {
      CHECK(blas.refuses(none.problem, spec));
      continue;
    }
    REQUIRE(blas.refuses(none.problem, spec).value_or("") == "");
    none.call = blas.prepare(none.problem, spec);
    check_exact(none);
    CHECK(none.call->report().arithmetic.output == none.problem.operands[output_index(none.problem)].dtype);
  }
}

TEST_CASE("no correct variant is flagged on the clean cases, nor the control") {
  int judged = 0;
  for (const std::string& id : conv_transpose1d::clean_cases())
    for (const std::string& v : conv_transpose1d::model_target().variants) {
      CAPTURE(id);
      CAPTURE(v);
      const Problem p = make_problem(id);
      if (conv_transpose1d::model_target().refuses(p, {.target = "model", .variant = v, .library = {}, .environment = {}}))
        continue;
      Trial t(conv_transpose1d::model_target(), id, v);
      const Judgement j = verdict(t, 1);
      CAPTURE(j.reason);
      REQUIRE(j.verdict == report::Verdict::pass);
      ++judged;
    }
  for (const std::string& id : conv_transpose1d::clean_cases()) {
    Trial t(conv_transpose1d::eigen_target(), id, "");
    CAPTURE(id);
    REQUIRE(verdict(t, 1).verdict == report::Verdict::pass);
  }
  CHECK(judged > 250);
}

TEST_CASE("clean cases cover every family in fp32 and beside it, every format, and the smallest shapes") {
  std::set<std::pair<bool, std::string>> seen;
  std::set<DType> formats;
  bool smallest = false;
  for (const std::string& id : conv_transpose1d::clean_cases()) {
    const Problem p = make_problem(id);
    seen.emplace(p.operands[0].dtype == DType::f32, p.id.word("fill"));
    formats.insert(p.operands[0].dtype);
    smallest |= p.flops == 2;
    CHECK(id.find("seed") == std::string::npos);
  }
  CHECK(smallest);
  CHECK(formats.size() == 4);
  for (const Family f : signal_families())
    for (const bool single : {true, false}) CHECK(seen.contains({single, std::string(name(f))}));
}

TEST_CASE("the variants differ in the last bits, so their names mean something") {
  std::set<std::vector<std::uint64_t>> results;
  for (const std::string& v : variants)
    results.insert(Trial(conv_transpose1d::model_target(), op + "cin=40,cout=3,l=20,k=7,stride=2,bias=1", v).run(1));
  CHECK(results.size() == std::size(variants));
}

TEST_CASE("what no tap reaches must be exactly the bias") {
  Trial t(conv_transpose1d::model_target(), op + "cin=3,cout=1,l=3,k=2,stride=5,outpad=4,bias=1", "gather");
  CHECK(verdict(t, 1).verdict == report::Verdict::pass);
  const Expected e = truth(t.problem, 1);
  const Bound b = find_op("conv_transpose1d").bound(t.problem, 0, e, {});
  for (std::size_t i = 0; i < e.value.size(); ++i) CHECK((b.hard[i] == 0) == (i % 5 > 1 || i == 15));
  std::byte* y = t.buffers.images[3].storage;
  store_bits(DType::f32, y + 3 * 4, load_bits(DType::f32, y + 3 * 4) + 1);
  CHECK(assay::trial::judge(t, e, {}).bad == 1);
}

TEST_CASE("faults of conv_transpose1d do what they say") {
  const std::string whole =
      op + "n=2,cin=6,cout=8,l=13,k=5,stride=3,dilation=2,padl=1,padr=3,outpad=2,groups=2,bias=1,fill=integer";
  /// Columns t of Y that the fault changes in some row.
  const auto changed = [](const std::string& id, const std::string& fault) {
    Trial right(conv_transpose1d::planted_target(), id, "none"), wrong(conv_transpose1d::planted_target(), id, fault);
    const auto good = right.run(1), bad = wrong.run(1);
    const std::int64_t lout = conv_transpose1d::call_of(right.problem).lout;
    std::set<std::int64_t> columns;
    for (std::size_t e = 0; e < good.size(); ++e)
      if (good[e] != bad[e]) columns.insert(static_cast<std::int64_t>(e) % lout);
    return columns;
  };
  const std::int64_t lout = conv_transpose1d::call_of(make_problem(whole)).lout;
  CHECK(lout == 12 * 3 - 4 + 8 + 1 + 2);
  CHECK(changed(whole, "outpad_unwritten") == std::set{lout - 2, lout - 1});
  CHECK(changed(whole, "outpad_empty") == std::set{lout - 2});  // no tap reaches the last
  CHECK(changed(whole, "tail_unwritten") == std::set{lout - 3, lout - 2, lout - 1});
  CHECK(*changed(whole, "dropped_tap").begin() == 4 * 2 - 1);
  CHECK(*changed(whole, "last_frame_lost").begin() == 12 * 3 - 1);
  CHECK(changed(whole, "stale_accumulator").empty());  // the first call is right
  CHECK(changed(whole, "bias_lost").size() == static_cast<std::size_t>(lout));
  const std::string holes = op + "cin=3,cout=4,l=2,k=2,stride=5,outpad=4,bias=1,fill=integer";
  CHECK(changed(holes, "holes_unwritten") == std::set<std::int64_t>{2, 3, 4, 7, 8, 9, 10});
  // Two blocks of 8 frames meet at 64 - padl; the first reaches 8 frames beyond.
  const auto seam = changed(op + "cin=2,cout=2,l=20,k=16,stride=8,padl=4,padr=4,fill=integer", "seam_lost");
  CHECK(*seam.begin() == 60);
  CHECK(seam.size() == 16);
  CHECK(changed(op + "cin=2,cout=2,l=5,k=3,fill=integer", "row_gap_ignored").empty());
  CHECK(conv_transpose1d::planted_target().refuses(make_problem(whole),
                                                   {.target = "planted", .variant = "no", .library = {}, .environment = {}}));
  CHECK_THROWS_AS(Trial(conv_transpose1d::model_target(), whole, "no"), Unsupported);
  CHECK_THROWS_AS(Trial(conv_transpose1d::model_target(), whole, "h100"), Unsupported);
}

TEST_CASE("every fault of conv_transpose1d is seen in one of its cases, and nothing without a fault") {
  CHECK(conv_transpose1d::planted_faults().size() >= 9);
  check_every_fault_is_seen(conv_transpose1d::planted_target(), conv_transpose1d::planted_faults(), 2);
}
