// SPDX-License-Identifier: Apache-2.0
// Attention through its targets: the control and every correct variant pass, every planted fault does what it says and is
// caught.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "fakes.hpp"
#include "judged_trial.hpp"
#include "probes/ops/attention/attention.hpp"

using namespace assay;
using namespace assay::trial;
using attention::Keys;

namespace {

std::vector<double> values(const Trial& t, std::string_view role) {
  const std::size_t i = t.problem.operand_index(role);
  return gather(t.problem.operands[i], t.buffers.storage(i));
}

const std::vector<std::string> variants = attention::model_target().variants;

}  // namespace

TEST_CASE("attention says what it cannot do and what to write instead") {
  const std::string op = "g1:attention:sq=2,skv=3,d=4";
  CHECK(message(op).empty());
  for (const auto& [rest, word] :
       std::vector<std::pair<std::string, std::string>>{{",hq=3,hkv=2", "hkv=2"},
                                                        {",part=scores,lse=1", "part=whole"},
                                                        {",part=context,bias=head", "part=scores"},
                                                        {",part=context,mask=causal", "mask"},
                                                        {",fill=integer", "part=context"},
                                                        {",fill=masked", "bias=shared"},
                                                        {",fill=one_hot,bias=head", "bias"},
                                                        {",fill=nan_one,bias=head,mask=causal", "mask"},
                                                        {",fill=extreme,sigma=4", "sigma=4"},
                                                        {",in=f32,out=f32,fill=reveal", "'reveal'"},
                                                        {",in=f64,out=f32", "out="},
                                                        {"000,hq=4096,b=400000", "2^40"}}) {
    CAPTURE(rest);
    CHECK(message(op + rest).find(word) != std::string::npos);
  }
}

TEST_CASE("operands lie where the id says") {
  const Problem p =
      make_problem("g1:attention:b=2,hq=4,hkv=2,sq=3,skv=5,d=8,dv=6,pad=1,off=2,lse=1,bias=head,in=bf16,out=f32,layout=bshd");
  CHECK(p.operand("Q").dims == std::vector<std::int64_t>{2, 4, 3, 8});
  CHECK(p.operand("Q").strides == std::vector<std::int64_t>{3 * 4 * 9, 9, 4 * 9, 1});
  CHECK(p.operand("K").dims == std::vector<std::int64_t>{2, 2, 5, 8});
  CHECK(p.operand("V").strides == std::vector<std::int64_t>{5 * 2 * 7, 7, 2 * 7, 1});
  CHECK(storage_elements(p.operand("O")) == 2 + (2 * 4 * 3 - 1) * 7 + 6);
  CHECK(p.operand("bias").dims == std::vector<std::int64_t>{4, 3, 5});
  CHECK(p.operand("L").dims == std::vector<std::int64_t>{2, 4, 3, 1});
  CHECK(p.operand("L").dtype == DType::f32);
  CHECK(p.outputs().size() == 2);
  CHECK(p.formats == "bf16>fp32");
  CHECK(make_problem("g1:attention:sq=3,hq=2").operand("K").strides == std::vector<std::int64_t>{2 * 3 * 64, 3 * 64, 64, 1});
}

TEST_CASE("what a query sees under each mask") {
  const auto seen = [](const std::string& rest, std::int64_t e, std::int64_t i) {
    const Keys k = attention::visible(attention::call_of(make_problem("g1:attention:b=3,sq=4,skv=6,d=4" + rest)), e, i);
    return k.last <= k.first ? std::pair<std::int64_t, std::int64_t>{0, 0} : std::pair{k.first, k.last};
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CHECK(seen("", 0, 0) == Pair{0, 6});
  CHECK(seen(",mask=causal", 0, 0) == Pair{0, 1});
  CHECK(seen(",mask=causal", 0, 3) == Pair{0, 4});
  CHECK(seen(",mask=causal_br", 0, 0) == Pair{0, 3});
  CHECK(seen(",mask=causal_br", 0, 3) == Pair{0, 6});
  CHECK(seen(",mask=causal_br,window=2", 0, 3) == Pair{4, 6});
  CHECK(seen(",mask=causal,window=1", 0, 2) == Pair{2, 3});
  CHECK(seen(",window=2", 0, 3) == Pair{2, 6});
  // Lengths 4, 5, 1 of 6; the bottom right corner is that of the entry.
  CHECK(seen(",lens=varied", 0, 0) == Pair{0, 4});
  CHECK(seen(",lens=varied", 2, 0) == Pair{0, 1});
  CHECK(seen(",lens=empty", 2, 0) == Pair{0, 0});
  CHECK(seen(",lens=varied,mask=causal_br", 1, 0) == Pair{0, 2});
  CHECK(seen(",lens=varied,mask=causal_br", 2, 0) == Pair{0, 0});
  CHECK(seen(",lens=varied,mask=causal_br", 2, 3) == Pair{0, 1});
}

TEST_CASE("the control and every correct variant give the hand-computed query and touch nothing else") {
  for (const char* format : {"f32", "f64", "bf16"})
    for (std::size_t v = 0; v <= variants.size(); ++v) {
      const bool control = v == variants.size();
      const std::string id =
          fmt::format("g1:attention:hq=2,hkv=1,sq=1,skv=3,d=2,dv=1,scale=0.5,pad=1,off=1,lse=1,in={}", format);
      const Target target = control ? attention::eigen_target() : attention::model_target();
      if (target.refuses(make_problem(id),
                         {.target = "model", .variant = control ? "" : variants[v], .library = {}, .environment = {}}))
        continue;
      Trial t(target, id, control ? "" : variants[v]);
      t.buffers.fill(t.problem, 1);
      const auto set = [&](std::string_view role, const std::vector<double>& to) {
        const std::size_t i = t.problem.operand_index(role);
        const Operand& o = t.problem.operands[i];
        for (std::size_t e = 0; e < to.size(); ++e)
          store_bits(o.dtype,
                     t.buffers.images[i].storage +
                         storage_index(o, static_cast<std::int64_t>(e)) * static_cast<std::int64_t>(size_bytes(o.dtype)),
                     encode(o.dtype, to[e]));
      };
      set("Q", {2, 0, 0, 0});  // head 0: scores 0, 1, 2; head 1: all equal
      set("K", {0, 7, 1, 7, 2, 7});
      set("V", {8, 16, 36});
      t.call->load(t.buffers.images);
      t.call->execute();
      t.call->store(t.buffers.images);
      const double a = std::exp(1.0), sum = 1 + a + a * a;
      CHECK(values(t, "O")[0] == doctest::Approx((8 + 16 * a + 36 * a * a) / sum).epsilon(1e-2));
      CHECK(values(t, "O")[1] == doctest::Approx(20).epsilon(1e-2));
      CHECK(values(t, "L")[0] == doctest::Approx(std::log(sum)).epsilon(1e-5));
      CHECK(values(t, "L")[1] == doctest::Approx(std::log(3.0)).epsilon(1e-5));
      t.run(3);
      CHECK(disturbed_bytes(t, 3) == 0);
    }
}

TEST_CASE("no correct variant is flagged on the clean cases, nor the control") {
  int judged = 0;
  for (const std::string& id : attention::clean_cases())
    for (std::size_t v = 0; v <= variants.size(); ++v) {
      const bool control = v == variants.size();
      const Target target = control ? attention::eigen_target() : attention::model_target();
      if (target.refuses(make_problem(id),
                         {.target = "model", .variant = control ? "" : variants[v], .library = {}, .environment = {}}))
        continue;
      CAPTURE(id);
      CAPTURE(v);
      Trial t(target, id, control ? "" : variants[v]);
      const Judgement j = verdict(t, 1 + v);
      CAPTURE(j.reason);
      REQUIRE(j.verdict == report::Verdict::pass);
      ++judged;
    }
  CHECK(judged > 500);
}

TEST_CASE("clean cases cover every family of whole attention in 16, 32 and 64 bits, and the smallest shape") {
  std::set<std::pair<int, std::string>> seen;
  bool smallest = false;
  for (const std::string& id : attention::clean_cases()) {
    const Problem p = make_problem(id);
    seen.emplace(format(p.operands[0].dtype).bits, p.id.word("fill"));
    smallest |= element_count(p.operands[0]) == 1;
    CHECK(id.find("seed") == std::string::npos);
  }
  CHECK(smallest);
  for (const char* family : {"normal", "uniform", "heavy", "two_level", "nan_one", "inf_one", "one_hot", "constant", "extreme",
                             "masked", "all_masked", "shifted"})
    for (const int bits : {16, 32, 64}) CHECK(seen.contains({bits, family}));
}

TEST_CASE("the variants differ in the last bits, so their names mean something") {
  std::set<std::vector<std::uint64_t>> results;
  for (const std::string& v : variants)
    results.insert(Trial(attention::model_target(), "g1:attention:sq=4,skv=300,d=16", v).run(1));
  CHECK(results.size() == variants.size());
}

TEST_CASE("one-hot and constant rows return values and means of values bit for bit") {
  for (const char* id :
       {"g1:attention:hq=2,sq=16,d=16,fill=one_hot", "g1:attention:sq=3,skv=64,d=16,fill=constant,in=bf16,out=f32",
        "g1:attention:sq=5,skv=128,d=16,fill=constant,in=f64"}) {
    Trial t(attention::eigen_target(), id, "");
    t.run(1);
    const std::vector<double> v = values(t, "V"), o = values(t, "O");
    const Expected e = truth(t.problem, 1);
    CHECK(std::set<double>(v.begin(), v.end()).size() > 4);
    const Bound b = find_op("attention").bound(t.problem, 0, e, t.call->report().arithmetic);
    for (std::size_t i = 0; i < o.size(); ++i) {
      CHECK(o[i] == round_to(t.problem.operand("O").dtype, e.value[i]));
      CHECK(b.hard[i] <= 1e-50);  // what exp(-128) leaves of a truth that rounds to zero
    }
  }
}

TEST_CASE("each step alone, fed its reference inputs, is judged and passes on the control") {
  for (const char* rest :
       {"part=scores", "part=scores,fill=integer,scale=0.25", "part=scores,mask=causal_br,bias=head,in=bf16",
        "part=scores,bias=shared,fill=masked", "part=probabilities", "part=probabilities,mask=causal,window=3,in=f64",
        "part=probabilities,fill=all_masked", "part=probabilities,lens=empty,in=f16", "part=context",
        "part=context,fill=integer,in=bf16", "part=context,fill=nan_one", "part=context,in=f64,fill=two_level"}) {
    const std::string id = std::string("g1:attention:b=2,hq=4,hkv=2,sq=5,skv=19,d=16,dv=6,layout=bshd,pad=1,") + rest;
    CAPTURE(id);
    Trial t(attention::eigen_target(), id, "");
    const Judgement j = verdict(t, 3);
    CAPTURE(j.reason);
    CHECK(j.verdict == report::Verdict::pass);
    CHECK(disturbed_bytes(t, 3) == 0);
    // One wrong element, far from the first, is seen.
    const std::size_t out = t.problem.outputs().front();
    const Operand& o = t.problem.operands[out];
    const std::int64_t last = element_count(o) - 1;
    std::byte* const at =
        t.buffers.images[out].storage + storage_index(o, last) * static_cast<std::int64_t>(size_bytes(o.dtype));
    if (std::isnan(decode(o.dtype, load_bits(o.dtype, at)))) continue;
    store_bits(o.dtype, at, encode(o.dtype, 3.0));
    CHECK(verdict_now(t, 3).verdict == report::Verdict::fail);
  }
}

TEST_CASE("a CBLAS gives attention by gemm, and by gemv for a single query") {
  const TargetSpec spec{.target = "cblas", .variant = {}, .library = fake("fake_lp64"), .environment = {}};
  const Target target = attention::cblas_target("cblas", "test");
  for (const char* rest : {"sq=3", "sq=1", "sq=1,in=f64", "sq=1,part=scores,fill=integer",
                           "sq=1,part=context,in=f64,fill=integer", "sq=3,mask=causal_br,lse=1"}) {
    const std::string id = std::string("g1:attention:b=2,hq=4,hkv=2,skv=7,d=16,dv=6,layout=bshd,pad=1,") + rest;
    CAPTURE(id);
    const Problem p = make_problem(id);
    Trial t(attention::eigen_target(), id, "");
    t.call = target.prepare(p, spec);
    const Judgement j = verdict(t, 2);
    CAPTURE(j.reason);
    CHECK(j.verdict == report::Verdict::pass);
    CHECK(disturbed_bytes(t, 2) == 0);
    CHECK(t.call->report().algorithm ==
          (std::string(rest).starts_with("sq=1") ? "gemv, softmax, gemv" : "gemm, softmax, gemm"));
  }
  CHECK(target.refuses(make_problem("g1:attention:sq=3,in=bf16"), spec));
}

TEST_CASE("faults of attention do what they say") {
  const auto rows_changed = [](const std::string& id, const std::string& fault) {
    Trial right(attention::planted_target(), id, "none"), wrong(attention::planted_target(), id, fault);
    const auto good = right.run(1), bad = wrong.run(1);
    CHECK(disturbed_bytes(wrong, 1) == 0);
    std::set<std::int64_t> rows;
    const std::int64_t width = right.problem.operand("O").dims.back();
    for (std::size_t e = 0; e < good.size(); ++e)
      if (good[e] != bad[e]) rows.insert(static_cast<std::int64_t>(e) / width);
    return rows.size();
  };
  const std::string op = "g1:attention:d=16,";
  CHECK(rows_changed(op + "sq=4,skv=4,mask=causal", "causal_off_by_one") == 3);  // the last query has no key after its diagonal
  CHECK(rows_changed(op + "sq=4,skv=4,mask=causal", "causal_corner") == 0);
  CHECK(rows_changed(op + "sq=4,skv=6,mask=causal", "causal_corner") == 4);
  CHECK(rows_changed(op + "sq=5,window=3,mask=causal", "window_off_by_one") == 2);
  CHECK(rows_changed(op + "b=2,sq=3,skv=9,lens=varied", "length_ignored") == 6);
  CHECK(rows_changed(op + "sq=3,skv=64", "tail_counted") == 0);
  CHECK(rows_changed(op + "sq=3,skv=64", "last_block_lost") == 0);
  CHECK(rows_changed(op + "sq=3,skv=65", "last_block_lost") == 3);
  CHECK(rows_changed(op + "sq=3,skv=32", "missing_rescale") == 0);
  CHECK(rows_changed(op + "hq=4,hkv=2,sq=1,skv=9", "heads_interleaved") == 2);  // heads 0 and 3 are right by chance of place
  CHECK(rows_changed(op + "hq=3,sq=2,skv=9,bias=head", "bias_of_head_0") == 4);
  CHECK(rows_changed(op + "sq=3,skv=9", "width_tail_lost") == 0);
  CHECK(rows_changed(op + "sq=3,skv=9", "value_width") == 0);
  CHECK(rows_changed(op + "sq=3,skv=9,lse=1", "lse_base_2") == 0);  // only the log-sum-exp
  CHECK(rows_changed(op + "sq=4,skv=9", "stale_accumulator") == 3);
  CHECK(rows_changed(op + "sq=6,skv=9", "rows_unwritten") == 2);
  CHECK(attention::planted_target().refuses(make_problem(op + "sq=2"),
                                            {.target = "planted", .variant = "nosuch", .library = {}, .environment = {}}));
  CHECK_THROWS_AS(Trial(attention::model_target(), op + "sq=2", "nosuch"), Unsupported);
  CHECK_THROWS_AS(Trial(attention::model_target(), op + "sq=2,part=scores", "online_1"), Unsupported);
}

TEST_CASE("every fault of attention is seen in one of its cases, and nothing without a fault") {
  CHECK(attention::planted_faults().size() >= 12);
  for (const PlantedFault& f : attention::planted_faults()) {
    int bad = 0;
    for (const std::string& id : f.cases) {
      Trial right(attention::planted_target(), id, "none"), wrong(attention::planted_target(), id, std::string(f.name));
      CAPTURE(id);
      CHECK(verdict(right, 1).verdict == report::Verdict::pass);
      bad += verdict(wrong, 1).verdict != report::Verdict::pass;
    }
    CAPTURE(f.name);
    CHECK(bad > 0);
  }
}

TEST_CASE("a long attention is judged on sampled queries, and looked over whole") {
  const Op& op = find_op("attention");
  CHECK(op.sampled_rows(make_problem("g1:attention:hq=6,sq=100")).empty());
  const Problem longer = make_problem("g1:attention:hq=20,sq=1500");
  const std::vector<std::int64_t> rows = op.sampled_rows(longer);
  CHECK(rows.size() == 512);
  CHECK(rows.front() == 0);
  CHECK(rows.back() == 20 * 1500 - 1);
  Trial t(attention::eigen_target(), "g1:attention:sq=4,skv=9,d=8", "");
  t.run(1);
  const std::size_t out = t.problem.outputs().front();
  CHECK(op.suspicious(t.problem, t.buffers.all(), t.buffers.storage(out)).empty());
  for (const double wrong : {100.0, std::numeric_limits<double>::quiet_NaN()}) {
    store_bits(DType::f32, t.buffers.images[out].storage + 4 * 17, encode(DType::f32, wrong));
    CHECK(op.suspicious(t.problem, t.buffers.all(), t.buffers.storage(out)).size() == 1);
  }
}
