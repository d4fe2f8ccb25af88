// SPDX-License-Identifier: Apache-2.0
// Layer and RMS normalisation through their targets: the control and every correct variant pass, every planted fault does what
// it says and is caught.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "judged_trial.hpp"
#include "probes/ops/layernorm/layernorm.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

std::vector<double> values(const Trial& t, const char* role) {
  const std::size_t i = t.problem.operand_index(role);
  const Operand& o = t.problem.operands[i];
  return gather(o, t.buffers.storage(i));
}

void set(Trial& t, const char* role, std::int64_t element, double value) {
  const std::size_t i = t.problem.operand_index(role);
  const Operand& o = t.problem.operands[i];
  store_bits(o.dtype, t.buffers.images[i].storage + storage_index(o, element) * static_cast<std::int64_t>(size_bytes(o.dtype)),
             encode(o.dtype, value));
}

const std::string variants[] = {"two_pass", "pairwise", "lanes", "welford", "welford_lanes", "blocks", "folded"};

Target target(std::size_t variant) {
  return variant == std::size(variants) ? layernorm::eigen_target() : layernorm::model_target();
}
std::string name_of(std::size_t variant) {
  return variant == std::size(variants) ? "" : variants[variant];
}

}  // namespace

TEST_CASE("layernorm says what it cannot do and what to do instead") {
  CHECK(message("g1:layernorm:rows=2,n=3").empty());
  CHECK(message("g1:layernorm:rows=2,n=3,fill=patterns").find("'patterns'") != std::string::npos);
  CHECK(message("g1:layernorm:rows=2,n=3,kind=rms,beta=1").find("kind=rms") != std::string::npos);
  CHECK(message("g1:layernorm:rows=2,n=3,eps=0,fill=constant").find("0/0") != std::string::npos);
  CHECK(message("g1:layernorm:rows=2,n=1,eps=0").find("n=2 or more") != std::string::npos);
  CHECK(message("g1:layernorm:rows=2,n=1,eps=0,kind=rms").empty());
  CHECK(message("g1:layernorm:rows=2,n=0,stats=1").find("stats=1") != std::string::npos);
  CHECK(message("g1:layernorm:rows=2,n=3,offset=4").find("fill=offset") != std::string::npos);
  CHECK(message("g1:layernorm:rows=2,n=3,offset=16,fill=offset,in=f16").find("f16") != std::string::npos);
  CHECK(message("g1:layernorm:rows=2,n=3,in=f32,out=bf16").find("bf16") != std::string::npos);
  CHECK(message("g1:layernorm:rows=2,n=3,eps=2e-5").find("1e-5") != std::string::npos);
  CHECK(message("g1:layernorm:rows=16777216,n=16777216").find("2^40") != std::string::npos);
}

TEST_CASE("operands of layernorm lie where the call says, parameters and statistics in fp32 beside 16-bit rows") {
  const Problem p = make_problem("g1:layernorm:rows=3,n=5,gamma=1,beta=1,stats=1,padx=2,pady=7,off=1,in=f16,out=f32,eps=1e-6");
  const layernorm::Call c = layernorm::call_of(p);
  CHECK(p.operands[c.x].role == "X");
  CHECK(p.operands[c.g].role == "G");
  CHECK(p.operands[c.b].role == "B");
  CHECK(p.operands[c.y].role == "Y");
  CHECK(p.operands[c.m].role == "M");
  CHECK(p.operands[c.r].role == "R");
  CHECK(p.operands[c.x].strides == std::vector<std::int64_t>{7, 1});
  CHECK(p.operands[c.y].strides == std::vector<std::int64_t>{12, 1});
  CHECK(storage_elements(p.operands[c.x]) == 1 + 2 * 7 + 5);
  CHECK(p.operands[c.g].dtype == DType::f32);
  CHECK(p.operands[c.m].dims == std::vector<std::int64_t>{3, 1});
  CHECK(p.outputs() == std::vector<std::size_t>{c.y, c.m, c.r});
  CHECK(c.eps == 1e-6F);
  CHECK(p.formats == "fp16>fp32");
  const Problem r = make_problem("g1:layernorm:rows=3,n=5,kind=rms,stats=1,in=f64");
  const layernorm::Call d = layernorm::call_of(r);
  CHECK(r.operands.size() == 3);
  CHECK(r.operands[d.r].role == "R");
  CHECK(r.operands[d.r].dtype == DType::f64);
}

TEST_CASE("the control and every correct variant give the hand-computed rows and touch nothing else") {
  // Mean 3 and variance 14/4; mean square 12.5; eps = 1e-3 is below the tolerance's relative 1e-3.
  const double row[] = {1, 2, 3, 6}, gamma[] = {1, -2, 0.5, 3}, beta[] = {0, 1, -1, 10};
  for (const char* format : {"f32", "f64"})
    for (const bool rms : {false, true})
      for (std::size_t v = 0; v <= std::size(variants); ++v) {
        Trial t(target(v),
                fmt::format("g1:layernorm:rows=2,n=4,gamma=1,{},eps=0,padx=1,pady=2,off=1,stats=1,in={}",
                            rms ? "kind=rms" : "beta=1", format),
                name_of(v));
        t.run(3);
        CHECK(disturbed_bytes(t, 3) == 0);
        t.buffers.fill(t.problem, 1);
        for (std::int64_t e = 0; e < 8; ++e) set(t, "X", e, row[e % 4]);
        for (std::int64_t e = 0; e < 4; ++e) {
          set(t, "G", e, gamma[e]);
          if (!rms) set(t, "B", e, beta[e]);
        }
        t.call->load(t.buffers.images);
        t.call->execute();
        t.call->store(t.buffers.images);
        const double rstd = 1 / std::sqrt(rms ? 12.5 : 3.5);
        const std::vector<double> y = values(t, "Y");
        for (std::size_t e = 0; e < 8; ++e) {
          const double want = (row[e % 4] - (rms ? 0 : 3)) * rstd * gamma[e % 4] + (rms ? 0 : beta[e % 4]);
          CHECK(y[e] == doctest::Approx(want).epsilon(1e-6));
        }
        CHECK(values(t, "R")[1] == doctest::Approx(rstd).epsilon(1e-6));
        if (!rms) CHECK(values(t, "M")[1] == doctest::Approx(3).epsilon(1e-6));
      }
}

TEST_CASE("rows without variance are exactly beta: one element, and a power of two of equal 16-bit numbers") {
  for (const char* id : {"g1:layernorm:rows=5,n=1,gamma=1,beta=1,stats=1,fill=extreme",
                         "g1:layernorm:rows=4,n=256,gamma=1,beta=1,stats=1,in=bf16,out=f32,fill=constant",
                         "g1:layernorm:rows=4,n=1024,gamma=1,beta=1,in=f16,out=f32,fill=constant,eps=1e-12"})
    for (std::size_t v = 0; v <= std::size(variants); ++v) {
      if (name_of(v) == "folded") continue;
      Trial t(target(v), id, name_of(v));
      t.run(1);
      const std::vector<double> y = values(t, "Y"), beta = values(t, "B");
      for (std::size_t e = 0; e < y.size(); ++e) REQUIRE(y[e] == beta[e % beta.size()]);
    }
}

TEST_CASE("no correct variant is flagged on layernorm's clean cases, nor the control") {
  int judged = 0;
  for (const std::string& id : layernorm::clean_cases())
    for (std::size_t v = 0; v <= std::size(variants); ++v) {
      CAPTURE(id);
      CAPTURE(v);
      Trial t(target(v), id, name_of(v));
      for (const std::uint64_t seed : {1, 2, 3}) {
        const Judgement j = verdict(t, seed);
        CAPTURE(j.reason);
        REQUIRE(j.verdict == report::Verdict::pass);
        ++judged;
      }
    }
  CHECK(judged > 800);
}

TEST_CASE("layernorm's clean cases cover every family in fp32 and one other form, and the smallest shapes") {
  std::set<std::pair<std::string, std::string>> seen;
  std::map<std::string, int> forms;
  bool smallest = false;
  for (const std::string& id : layernorm::clean_cases()) {
    const Problem p = make_problem(id);
    const std::string form = p.formats + p.id.word("kind");
    if (seen.emplace(form, p.id.word("fill")).second) ++forms[p.id.word("fill")];
    smallest |= element_count(p.operands[0]) == 1;
    CHECK(id.find("seed") == std::string::npos);
  }
  CHECK(smallest);
  for (const Parameter& p : find_op("layernorm").grammar)
    if (p.name == "fill")
      for (const std::string_view family : p.choices) {
        CHECK(seen.contains({"fp32layer", std::string(family)}));
        CHECK(forms[std::string(family)] >= 2);
      }
}

TEST_CASE("layernorm's variants differ in the last bits, so their names mean something") {
  std::set<std::vector<std::uint64_t>> results;
  for (const std::string& v : variants)
    results.insert(Trial(layernorm::model_target(), "g1:layernorm:rows=8,n=700,gamma=1,beta=1,fill=shifted", v).run(1));
  CHECK(results.size() == std::size(variants));
}

TEST_CASE("a mean folded into the shift passes where declared, and shows on rows without variance where not") {
  const std::string id = "g1:layernorm:rows=16,n=128,in=bf16,out=f32,fill=constant";
  Trial t(layernorm::model_target(), id, "folded");
  CHECK(t.call->report().arithmetic.folded_shift);
  CHECK(verdict(t, 1).verdict == report::Verdict::pass);
  const Expected truth = trial::truth(t.problem, 1);
  Arithmetic direct = t.call->report().arithmetic;
  direct.folded_shift = false;
  CHECK(trial::judge(t, truth, direct).bad > 0);
}

TEST_CASE("faults of layernorm do what they say") {
  const std::string id = "g1:layernorm:rows=16,n=130,gamma=1,beta=1,stats=1";
  const auto rows_changed = [](const std::string& case_id, const std::string& fault) {
    Trial right(layernorm::planted_target(), case_id, "none"), wrong(layernorm::planted_target(), case_id, fault);
    const auto good = right.run(1), bad = wrong.run(1);
    CHECK(disturbed_bytes(wrong, 1) == (fault == "gap_written" ? 15 * 4 : 0));
    std::set<std::size_t> rows;
    const auto n = static_cast<std::size_t>(right.problem.id.integer("n"));
    for (std::size_t e = 0; e < good.size(); ++e)
      if (good[e] != bad[e]) rows.insert(e / n);
    return rows.size();
  };
  CHECK(rows_changed(id, "wrong_row") == 1);
  CHECK(rows_changed(id, "beta_lost") == 16);
  CHECK(rows_changed(id, "last_element_lost") == 16);
  CHECK(rows_changed("g1:layernorm:rows=16,n=128,fill=offset", "tail_counted") == 0);
  CHECK(rows_changed("g1:layernorm:rows=16,n=130,fill=offset", "tail_counted") == 16);
  CHECK(rows_changed(id + ",pady=2", "gap_written") == 0);
  CHECK(rows_changed(id, "stride_ignored") == 0);
  CHECK(rows_changed(id + ",padx=1", "stride_ignored") == 15);
  CHECK(rows_changed(id, "stale_statistics") == 0);  // right until the data changes
  CHECK(rows_changed(id, "rstd_holds_deviation") == 0);
  Trial right(layernorm::planted_target(), id, "none"), squared(layernorm::planted_target(), id, "rstd_holds_inverse_variance"),
      unwritten(layernorm::planted_target(), id, "rstd_unwritten");
  right.run(1), squared.run(1), unwritten.run(1);
  const double rstd = values(right, "R")[3];
  CHECK(values(squared, "R")[3] == doctest::Approx(rstd * rstd));
  CHECK(values(unwritten, "R")[14] == values(right, "R")[14]);
  CHECK(std::isnan(values(unwritten, "R")[15]));
  CHECK(layernorm::planted_target().refuses(make_problem(id),
                                            {.target = "planted", .variant = "nosuch", .library = {}, .environment = {}}));
  CHECK_THROWS_AS(Trial(layernorm::model_target(), id, "nosuch"), Unsupported);
}

TEST_CASE("every fault of layernorm is seen in one of its cases, and nothing without a fault") {
  CHECK(layernorm::planted_faults().size() >= 9);
  check_every_fault_is_seen(layernorm::planted_target(), layernorm::planted_faults(), 3);
}
