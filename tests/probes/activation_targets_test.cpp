// SPDX-License-Identifier: Apache-2.0
// Activations through their targets: the control and every correct variant pass, every planted fault does what it says and is
// caught.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "judged_trial.hpp"
#include "probes/ops/activation/activation.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

const std::string variants[] = {"direct", "tail", "exponential", "two_ulp", "fused", "exp2", "wide"};

/// Runs t on data of the test's own instead of its fill's.
std::vector<double> results(Trial& t, const std::vector<double>& x, const std::vector<double>& bias = {}) {
  t.buffers.fill(t.problem, 1);
  const auto put = [&](std::size_t operand, const std::vector<double>& data) {
    const Operand& o = t.problem.operands[operand];
    for (std::int64_t e = 0; e < element_count(o); ++e)
      store_bits(o.dtype,
                 t.buffers.images[operand].storage + storage_index(o, e) * static_cast<std::int64_t>(size_bytes(o.dtype)),
                 encode(o.dtype, data[static_cast<std::size_t>(e) % data.size()]));
  };
  put(0, x);
  if (!bias.empty()) put(1, bias);
  t.call->load(t.buffers.images);
  t.call->execute();
  t.call->store(t.buffers.images);
  std::vector<double> y;
  for (const std::uint64_t bits : t.output()) y.push_back(decode(t.problem.operands.back().dtype, bits));
  return y;
}

Target control_or_model(std::size_t v) {
  return v == std::size(variants) ? activation::eigen_target() : activation::model_target();
}
std::string variant_of(std::size_t v) {
  return v == std::size(variants) ? "" : variants[v];
}

}  // namespace

TEST_CASE("activation: what is asked for lies where the operands say, and a wrong wish gets one sentence") {
  const Problem p = make_problem("g1:activation:rows=3,n=5,padx=2,pady=7,off=1,in=f16,out=f32,bias=1,kind=silu");
  REQUIRE(p.operands.size() == 3);
  CHECK(p.operands[0].strides == std::vector<std::int64_t>{7, 1});
  CHECK(p.operands[1].role == "B");
  CHECK(storage_elements(p.operands[1]) == 1 + 5);
  CHECK(p.operands[2].strides == std::vector<std::int64_t>{12, 1});
  CHECK(p.formats == "fp16>fp32");
  const activation::Call c = activation::call_of(p);
  CHECK(c.kind == activation::Kind::silu);
  CHECK(c.bias);
  CHECK(c.y_index() == 2);
  CHECK(activation::call_of(make_problem("g1:activation:rows=3,n=5")).y_index() == 1);
  for (const Family f : activation::families())
    CHECK(message(fmt::format("g1:activation:rows=2,n=3,fill={}", name(f))).empty());
  CHECK(message("g1:activation:rows=2,n=3,fill=reveal").find("'reveal'") != std::string::npos);
  CHECK(message("g1:activation:rows=2,n=3,fill=patterns,sigma=4").find("sigma=4") != std::string::npos);
  CHECK(message("g1:activation:rows=2,n=3,in=f32,out=bf16").find("bf16") != std::string::npos);
  CHECK(message("g1:activation:rows=2,n=3,kind=gelu").find("gelu_tanh") != std::string::npos);
  CHECK(message("g1:activation:rows=16777216,n=16777216").find("2^40") != std::string::npos);
}

TEST_CASE("65536 elements of 16 bits are every pattern there is") {
  const Problem p = make_problem("g1:activation:rows=256,n=256,in=bf16,fill=patterns");
  const std::vector<std::uint64_t> bits = generate(p.operands[0], p.fills[0], 5);
  CHECK(std::set(bits.begin(), bits.end()).size() == 65536);
}

TEST_CASE("activation: the control and every correct variant give known values and touch nothing else") {
  for (const char* format : {"f32", "f64"})
    for (std::size_t v = 0; v <= std::size(variants); ++v) {
      CAPTURE(v);
      const std::pair<const char*, double> known[] = {
          {"gelu_erf", 0.841344746068543}, {"gelu_tanh", 0.841191990608276}, {"silu", 0.731058578630005}, {"relu", 1}};
      for (const auto& [kind, value] : known) {
        Trial t(control_or_model(v),
                fmt::format("g1:activation:rows=2,n=3,padx=1,pady=2,off=1,bias=1,in={},kind={}", format, kind), variant_of(v));
        // 1 in every column, however it is split; then rows of -29, -30, -31 and the like, which all round to nearly zero.
        const std::vector<double> y = results(t, {-1, 2, 4, -33, -30, -28}, {2, -1, -3});
        for (std::size_t i = 0; i < 3; ++i) {
          CHECK(y[i] == doctest::Approx(value).epsilon(1e-6));
          CHECK(std::fabs(y[3 + i]) < 1e-5);
        }
        t.run(3);
        CHECK(disturbed_bytes(t, 3) == 0);
      }
    }
}

TEST_CASE("activation: no correct variant is flagged on the clean cases, nor the control") {
  int judged = 0;
  for (const std::string& id : activation::clean_cases())
    for (std::size_t v = 0; v <= std::size(variants); ++v) {
      CAPTURE(id);
      CAPTURE(v);
      Trial t(control_or_model(v), id, variant_of(v));
      for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
        const Judgement j = verdict(t, seed);
        CAPTURE(j.reason);
        REQUIRE(j.verdict == report::Verdict::pass);
        ++judged;
      }
    }
  CHECK(judged > 1000);
}

TEST_CASE("activation: clean cases cover every family twice, every kind in every format, and the smallest shapes") {
  std::set<std::pair<std::string, std::string>> families, kinds;
  bool smallest = false, bias = false;
  for (const std::string& id : activation::clean_cases()) {
    const Problem p = make_problem(id);
    families.emplace(p.id.word("fill"), p.id.word("kind"));
    kinds.emplace(p.id.word("in"), p.id.word("kind"));
    smallest |= element_count(p.operands[0]) == 1;
    bias |= p.operands.size() == 3;
    CHECK(id.find("seed") == std::string::npos);
  }
  CHECK(smallest);
  CHECK(bias);
  for (const Family f : activation::families())
    CHECK(std::ranges::count(families, std::string(name(f)), &std::pair<std::string, std::string>::first) >= 2);
  for (const char* kind : {"gelu_erf", "gelu_tanh", "silu", "relu"})
    for (const char* in : {"f32", "f64", "bf16", "f16"}) {
      CAPTURE(kind);
      CAPTURE(in);
      CHECK(kinds.contains({in, kind}));
    }
}

TEST_CASE("activation: -Inf gives the limit where promised, NaN is policy where nothing is, anything else is wrong") {
  for (const char* kind : {"gelu_erf", "gelu_tanh", "silu"}) {
    const std::string id = fmt::format("g1:activation:rows=8,n=33,fill=masked,kind={}", kind);
    Trial exact(activation::model_target(), id, "tail"), literal(activation::model_target(), id, "direct"),
        broken(activation::planted_target(), id, "limit_lost");
    CHECK(verdict(exact, 1).label.empty());
    CHECK(verdict(literal, 1).verdict == report::Verdict::pass);
    CHECK(verdict(literal, 1).label == "POLICY");
    CHECK(verdict(broken, 1).verdict == report::Verdict::fail);
  }
  Trial relu(activation::eigen_target(), "g1:activation:rows=1,n=2,fill=masked,kind=relu", "");
  CHECK(results(relu, {-std::numeric_limits<double>::infinity(), 2}) == std::vector<double>{0, 2});
  CHECK(relu.problem.leans_on.empty());
}

TEST_CASE("a fast exp that is declared passes, the same exp declared accurate is caught where x is large") {
  const std::string id = "g1:activation:rows=16,n=67,kind=silu,sigma=16";
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Trial declared(activation::model_target(), id, "exp2"), hidden(activation::planted_target(), id, "fast_exp");
    CHECK(verdict(declared, seed).verdict == report::Verdict::pass);
    CHECK(verdict(hidden, seed).verdict == report::Verdict::fail);
  }
}

TEST_CASE("activation: faults do what they say") {
  const std::string id = "g1:activation:rows=16,n=67,bias=1";
  const auto changed = [](const std::string& case_id, const std::string& fault) {
    Trial right(activation::planted_target(), case_id, "none"), wrong(activation::planted_target(), case_id, fault);
    const auto good = right.run(1), bad = wrong.run(1);
    CHECK(disturbed_bytes(wrong, 1) == (fault == "gap_written" ? 15 * 4 : 0));
    std::set<std::size_t> rows, columns;
    const auto n = static_cast<std::size_t>(right.problem.id.integer("n"));
    for (std::size_t e = 0; e < good.size(); ++e)
      if (good[e] != bad[e]) rows.insert(e / n), columns.insert(e % n);
    return std::pair(rows.size(), columns.size());
  };
  CHECK(changed(id, "wrong_row") == std::pair<std::size_t, std::size_t>(1, 67));
  CHECK(changed(id, "tail_identity") == std::pair<std::size_t, std::size_t>(16, 3));
  CHECK(changed("g1:activation:rows=16,n=64", "tail_identity").first == 0);
  CHECK(changed(id, "bias_lost").second == 67);
  CHECK(changed(id, "bias_shifted").second == 67);
  CHECK(changed(id, "stale_bias").first == 0);  // right until the data changes
  CHECK(changed(id + ",pady=2", "gap_written").first == 0);
  CHECK(changed(id, "stride_ignored").first == 0);
  CHECK(changed(id + ",padx=1", "stride_ignored").first == 15);
  CHECK(changed(id, "fast_tanh").first == 0);  // it takes the tanh form
  CHECK(changed(id + ",kind=gelu_tanh", "fast_tanh").first == 16);
  Trial tail(activation::planted_target(), id, "tail_unwritten");
  const auto bits = tail.run(1, std::byte{0x7F});
  CHECK(std::count(bits.begin(), bits.end(), 0x7F7F7F7F) == 16 * 3);
  CHECK(activation::planted_target().refuses(make_problem(id),
                                             {.target = "planted", .variant = "nosuch", .library = {}, .environment = {}}));
  CHECK_THROWS_AS(Trial(activation::model_target(), id, "nosuch"), Unsupported);
}

TEST_CASE("every fault of activation is seen in one of its cases, and nothing without a fault") {
  CHECK(activation::planted_faults().size() >= 8);
  check_every_fault_is_seen(activation::planted_target(), activation::planted_faults(), 2);
}
