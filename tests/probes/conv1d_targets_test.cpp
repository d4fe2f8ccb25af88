// SPDX-License-Identifier: Apache-2.0
// conv1d through its targets: the control and every correct variant pass, every planted fault does what it says and is caught.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "judged_trial.hpp"
#include "probes/library/library.hpp"
#include "probes/ops/conv1d/conv1d.hpp"
#include "probes/ops/conv1d/targets.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

bool takes(const Target& target, const std::string& id, const std::string& variant) {
  return !target.refuses(make_problem(id), {.target = target.name, .variant = variant, .library = {}, .environment = {}});
}

/// Bits with -0 as +0.
std::vector<std::uint64_t> unsigned_zeros(std::vector<std::uint64_t> bits, DType t) {
  for (std::uint64_t& b : bits)
    if (decode(t, b) == 0) b = 0;
  return bits;
}

const std::vector<std::string> exact_ids = {
    "g1:conv1d:cin=1,cout=1,l=1,k=1,fill=integer",
    "g1:conv1d:n=2,cin=5,cout=3,l=11,k=3,padl=2,padr=1,bias=1,gapx=2,gapy=3,off=1,fill=integer",
    "g1:conv1d:n=2,cin=5,cout=3,l=11,k=3,padl=2,padr=1,bias=1,layout=nlc,gapx=2,gapy=3,off=1,fill=integer",
    "g1:conv1d:cin=4,cout=6,l=10,k=4,stride=3,dilation=2,padl=5,padr=1,groups=2,layout=nlc,fill=integer",
    "g1:conv1d:cin=6,cout=6,l=10,k=2,groups=6,padl=1,fill=position",
    "g1:conv1d:n=3,cin=2,cout=3,l=0,k=2,padl=2,bias=1,fill=integer",
    "g1:conv1d:n=2,cin=3,cout=2,l=7,k=3,padl=4,padr=2,zeros=explicit,fill=integer",
    "g1:conv1d:n=0,cin=3,cout=2,l=7,k=3,fill=integer",
};

}  // namespace

TEST_CASE("conv1d says what is impossible and what to do") {
  CHECK(message("g1:conv1d:cin=4,cout=6,l=9,k=3").empty());
  CHECK(message("g1:conv1d:cin=4,cout=6,l=9,k=3,groups=4") ==
        "conv1d cannot divide cin=4 and cout=6 into 4 groups; choose groups that divides both");
  CHECK(message("g1:conv1d:cin=1,cout=1,l=3,k=3,dilation=2,padl=1") ==
        "conv1d with k=3 and dilation=2 spans 5 positions, and l=3 with padl=1 and padr=0 has only 4; choose a longer l, more "
        "padding, or a smaller k or dilation");
  CHECK(message("g1:conv1d:cin=1,cout=1,l=3,k=1,in=f32,out=bf16").find("out=same") != std::string::npos);
  CHECK(message("g1:conv1d:n=16777216,cin=16777216,cout=1,l=9,k=3").find("2^40") != std::string::npos);
  CHECK(message("g1:conv1d:cin=2,cout=2,l=9,k=3,fill=masked").find("'masked'") != std::string::npos);
}

TEST_CASE("conv1d lays its operands out as the case says") {
  const Problem first = make_problem("g1:conv1d:n=2,cin=3,cout=4,l=10,k=3,stride=2,padl=1,bias=1,gapx=5,gapy=6,off=1");
  CHECK(first.operands.size() == 4);
  CHECK(first.operands[0].strides == std::vector<std::int64_t>{45, 15, 1});
  CHECK(first.operands[1].strides == std::vector<std::int64_t>{9, 3, 1});
  CHECK(first.operands[3].dims == std::vector<std::int64_t>{2, 4, 5});
  CHECK(first.operands[3].strides == std::vector<std::int64_t>{44, 11, 1});
  CHECK(storage_elements(first.operands[3]) == 1 + 7 * 11 + 5);
  const Problem last = make_problem("g1:conv1d:n=2,cin=3,cout=4,l=10,k=3,layout=nlc,gapx=1,gapy=2");
  CHECK(last.operands[0].strides == std::vector<std::int64_t>{40, 1, 4});
  CHECK(last.operands[1].strides == std::vector<std::int64_t>{9, 1, 3});
  CHECK(last.operands[2].strides == std::vector<std::int64_t>{48, 1, 6});
  const conv1d::Call padded = conv1d::call_of(make_problem("g1:conv1d:cin=1,cout=1,l=5,k=3,padl=2,padr=1,zeros=explicit"));
  CHECK(padded.l == 8);
  CHECK(padded.padl + padded.padr == 0);
  CHECK(padded.lout == 6);
}

TEST_CASE("conv1d: padding by argument and as zeros in the signal have the same truth, bit for bit") {
  for (const Family f : signal_families())
    for (const char* rest : {"", ",layout=nlc,gapx=2", ",stride=2,in=bf16,out=f32"}) {
      const std::string id = fmt::format("g1:conv1d:n=2,cin=3,cout=2,l=9,k=3,padl=2,padr=1,fill={}{}", name(f), rest);
      const Expected implied = truth(make_problem(id), 3), given = truth(make_problem(id + ",zeros=explicit"), 3);
      REQUIRE(implied.value.size() == given.value.size());
      for (std::size_t i = 0; i < implied.value.size(); ++i)
        CHECK((implied.value[i] == given.value[i] || (std::isnan(implied.value[i]) && std::isnan(given.value[i]))));
    }
}

TEST_CASE("conv1d: the position fill has one tap of one channel per output channel") {
  const Problem p = make_problem("g1:conv1d:cin=4,cout=9,l=12,k=3,fill=position");
  Buffers b(p);
  b.fill(p, 4);
  const std::vector<double> w = gather(p.operands[1], b.storage(1));
  std::set<std::int64_t> places;
  for (std::int64_t o = 0; o < 9; ++o) {
    const auto from = w.begin() + o * 12;
    CHECK(std::count(from, from + 12, 1.0) == 1);
    CHECK(std::count(from, from + 12, 0.0) == 11);
    places.insert(std::find(from, from + 12, 1.0) - from);
  }
  CHECK(places.size() == 9);
}

TEST_CASE("conv1d: the control and every direct variant are exact on whole numbers and touch nothing else") {
  const Target model = conv1d::model_target();
  int judged = 0;
  for (const std::string& plain : exact_ids)
    for (const char* format : {"", ",in=f64", ",in=bf16", ",in=f16,out=f32"}) {
      const std::string id = plain + format;
      CAPTURE(id);
      std::vector<std::string> variants = model.variants;
      variants.emplace_back();  // the control
      for (const std::string& v : variants) {
        CAPTURE(v);
        const Target target = v.empty() ? conv1d::eigen_target() : model;
        if (!takes(target, id, v)) continue;
        Trial t(target, id, v);
        if (t.call->report().arithmetic.transform != Transform::none) continue;
        const DType out = t.problem.operands[output_index(t.problem)].dtype;
        REQUIRE(unsigned_zeros(t.run(2), out) == unsigned_zeros(rounded_truth(t.problem, 2), out));
        REQUIRE(disturbed_bytes(t, 2) == 0);
        ++judged;
      }
    }
  CHECK(judged >= 8 * (4 * 7 + 2 * 1 + 1));
}

TEST_CASE("conv1d: no correct variant is flagged on the clean cases, nor the control") {
  const Target model = conv1d::model_target();
  std::map<std::string, int> judged;
  for (const std::string& id : conv1d::clean_cases()) {
    std::vector<std::string> variants = model.variants;
    variants.emplace_back();
    for (const std::string& v : variants) {
      const Target target = v.empty() ? conv1d::eigen_target() : model;
      if (!takes(target, id, v)) continue;
      CAPTURE(id);
      CAPTURE(v);
      Trial t(target, id, v);
      for (const std::uint64_t seed : {1, 2}) {
        const Judgement j = verdict(t, seed);
        CAPTURE(j.reason);
        REQUIRE(j.verdict == report::Verdict::pass);
        ++judged[v];
      }
    }
  }
  CHECK(judged.size() == model.variants.size() + 1);
  for (const auto& [variant, count] : judged) CHECK(count >= 14);
}

TEST_CASE("conv1d: clean cases cover every family in fp32 and 16 bits, fp64, and the smallest shapes") {
  std::set<std::pair<int, std::string>> seen;
  bool smallest = false;
  for (const std::string& id : conv1d::clean_cases()) {
    const Problem p = make_problem(id);
    seen.emplace(format(p.operands[0].dtype).bits, p.id.word("fill"));
    smallest |= element_count(p.operands[0]) == 1 && element_count(p.operands[1]) == 1;
  }
  CHECK(smallest);
  for (const Family f : signal_families())
    for (const int bits : {16, 32}) CHECK(seen.contains({bits, std::string(name(f))}));
  CHECK(seen.contains({64, "normal"}));
  CHECK(seen.contains({64, "two_level"}));
}

TEST_CASE("conv1d: the variants differ in the last bits, so their names mean something") {
  std::set<std::vector<std::uint64_t>> results;
  const Target model = conv1d::model_target();
  const std::string id = "g1:conv1d:cin=12,cout=4,l=60,k=3,padl=1,in=f16,out=f32";
  for (const std::string& v : model.variants) results.insert(Trial(model, id, v).run(1));
  CHECK(results.size() == model.variants.size());
}

TEST_CASE("conv1d: a transform that is not declared is seen on whole numbers, a declared one passes") {
  const Target model = conv1d::model_target();
  for (const char* v : {"winograd_4", "fft"}) {
    CAPTURE(v);
    Trial t(model, "g1:conv1d:cin=4,cout=8,l=200,k=3,padl=1,padr=1,fill=integer", v);
    t.run(1);
    Arithmetic a = t.call->report().arithmetic;
    const Expected e = truth(t.problem, 1);
    CHECK(assay::trial::judge(t, e, a).bad == 0);
    a.transform = Transform::none;
    CHECK(assay::trial::judge(t, e, a).bad > 0);
  }
}

TEST_CASE("conv1d faults do what they say") {
  const auto changed = [](const std::string& id, const std::string& fault) {
    Trial right(conv1d::planted_target(), id, "none"), wrong(conv1d::planted_target(), id, fault);
    const auto good = right.run(1), bad = wrong.run(1);
    return differing(good, bad);
  };
  const std::string id = "g1:conv1d:n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,fill=integer";
  const std::string no_padding = "g1:conv1d:cin=8,cout=6,l=37,k=5,fill=integer";
  CHECK(changed(no_padding, "edge_repeated") == 0);
  CHECK(changed(no_padding, "reads_past_row") == 0);
  CHECK(changed(no_padding, "channel_tail_lost") == 0);
  CHECK(changed(no_padding, "batch_tail_repeated") == 0);
  CHECK(changed(no_padding, "weights_read_channels_first") == 0);
  CHECK(changed(no_padding, "dilation_ignored") == 0);
  CHECK(changed(no_padding, "lost_bias") == 0);
  CHECK(changed(no_padding, "group_before") == 0);
  CHECK(changed(id, "stale_weights") == 0);  // right until the data changes
  CHECK(changed(id, "last_output_unwritten") == 2 * 6);
  CHECK(changed(id, "last_output_early") <= 2 * 6);
  CHECK(changed(id, "last_output_early") >= 2 * 6 - 2);
  CHECK(changed(id, "edge_repeated") <= 2 * 6 * 4);
  CHECK(changed(id, "edge_repeated") > 2 * 6 * 3);
  CHECK(changed(id, "batch_tail_repeated") > 6 * 30);
  Trial gaps(conv1d::planted_target(), id + ",gapy=2", "gap_written");
  gaps.run(1);
  CHECK(disturbed_bytes(gaps, 1) == 11 * 4);
  CHECK_FALSE(takes(conv1d::planted_target(), id, "nosuch"));
  CHECK_THROWS_AS(Trial(conv1d::model_target(), id, "nosuch"), Unsupported);
  CHECK_THROWS_AS(Trial(conv1d::model_target(), id, "winograd_2"), Unsupported);
}

TEST_CASE("every fault of conv1d is seen in one of its cases, and nothing without a fault") {
  CHECK(conv1d::planted_faults().size() >= 10);
  check_every_fault_is_seen(conv1d::planted_target(), conv1d::planted_faults(), 2);
}

TEST_CASE("conv1d: a long problem is judged on rows, and the combination of channels sees what lies outside them") {
  const Op& op = find_op("conv1d");
  CHECK(op.sampled_rows(make_problem("g1:conv1d:cin=64,cout=64,l=50,k=3")).empty());
  const auto rows = op.sampled_rows(make_problem("g1:conv1d:cin=1280,cout=1280,l=3000,k=3,stride=2"));
  CHECK(rows.size() == 64);
  CHECK(rows.back() == 1279);
  CHECK(op.sampled_rows(make_problem("g1:conv1d:cin=1280,cout=1280,l=3000,k=3,stride=2,fill=nan_one")).empty());
  for (const char* rest :
       {"", ",fill=integer", ",bias=1,fill=uniform", ",in=bf16,out=f32", ",in=f64,layout=nlc", ",groups=3,bias=1,fill=heavy"})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(rest);
      Trial t(conv1d::eigen_target(), std::string("g1:conv1d:n=2,cin=12,cout=24,l=60,k=5,padl=2,padr=2") + rest, "");
      t.run(seed);
      const std::size_t out = output_index(t.problem);
      const Operand& y = t.problem.operands[out];
      const auto inputs = t.buffers.all();
      CHECK(op.suspicious(t.problem, inputs, t.buffers.storage(out)).empty());
      // One element, a thousandth of its size.
      const std::int64_t hit = 1000 + static_cast<std::int64_t>(seed);
      std::byte* const at =
          t.buffers.images[out].storage + storage_index(y, hit) * static_cast<std::int64_t>(size_bytes(y.dtype));
      store_bits(y.dtype, at, encode(y.dtype, decode(y.dtype, load_bits(y.dtype, at)) * 1.001 + 0.01));
      CHECK_FALSE(op.suspicious(t.problem, inputs, t.buffers.storage(out)).empty());
    }
}

TEST_CASE("conv1d: a CBLAS convolves exactly in both layouts, groups and gaps included, and says what it cannot") {
  const Target openblas = conv1d::cblas_target("openblas", "");
  CHECK_FALSE(takes(openblas, exact_ids[0] + ",in=bf16", ""));
  CHECK_FALSE(takes(openblas, exact_ids[0] + ",in=f16", ""));
  CHECK(takes(openblas, exact_ids[0] + ",in=bf16,out=f32", ""));
  CHECK_THROWS_AS(
      openblas.prepare(make_problem(exact_ids[0]), {.target = "openblas", .variant = {}, .library = {}, .environment = {}}),
      Unavailable);
  for (const FoundLibrary& library : find_cblas({}))
    for (const std::string& plain : exact_ids)
      for (const char* format : {"", ",in=f64"}) {
        CAPTURE(library.path);
        CAPTURE(plain);
        Trial t(conv1d::eigen_target(), plain + format, "");
        t.call =
            openblas.prepare(t.problem, {.target = library.family, .variant = {}, .library = library.path, .environment = {}});
        const DType out = t.problem.operands[output_index(t.problem)].dtype;
        REQUIRE(unsigned_zeros(t.run(3), out) == unsigned_zeros(rounded_truth(t.problem, 3), out));
        REQUIRE(disturbed_bytes(t, 3) == 0);
      }
}
