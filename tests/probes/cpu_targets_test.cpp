// SPDX-License-Identifier: Apache-2.0
// The CPU targets of gemm through the judge: every layout, scalar and size, on Eigen, on the stand-in libraries and on real
// ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "fakes.hpp"
#include "probes/library/library.hpp"
#include "probes/ops/gemm/gemm.hpp"
#include "reference/compare.hpp"

using namespace assay;

namespace {

constexpr std::byte poison{0xff};  // every element a NaN

const Target& target(const std::string& name) {
  static const std::vector<Target> all = gemm::cpu_targets();
  const auto found = std::ranges::find(all, name, &Target::name);
  REQUIRE(found != all.end());
  return *found;
}

TargetSpec spec(const std::string& target, const std::string& library, const std::string& variant = "") {
  TargetSpec out;
  out.target = target, out.library = library, out.variant = variant;
  return out;
}

/// Inputs filled, outputs and gaps poisoned; where the contract says that an operand is not read, poison stays in it.
std::vector<std::vector<std::byte>> storage_of(const Problem& p) {
  const gemm::Call c = gemm::call_of(p);
  std::vector<std::vector<std::byte>> out;
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    out.emplace_back(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype), poison);
    if (o.access != Access::out && !(i < 2 && c.alpha == 0)) fill(o, p.fills[i], p.seed, out.back());
  }
  return out;
}

struct Outcome {
  Discrepancy found;
  std::int64_t disturbed = 0;  // gap bytes written
  bool inputs_kept = true;
  CallReport report;
};

Outcome run(const std::string& id, const TargetSpec& who,
            const std::function<void(std::vector<std::byte>&, const Operand&)>& spoil = {}) {
  const Problem p = make_problem(id);
  const auto before = storage_of(p);
  auto after = before;
  std::vector<Image> images;
  for (auto& s : after) images.push_back({s.data(), s.size()});
  const Target& t = target(who.target);
  REQUIRE_MESSAGE(!t.refuses(p, who), *t.refuses(p, who));
  const auto call = t.prepare(p, who);
  call->load(images);
  call->execute();
  call->store(images);
  if (spoil) spoil(after[2], p.operands[2]);

  Outcome out;
  out.report = call->report();
  out.inputs_kept = before[0] == after[0] && before[1] == after[1];
  out.disturbed = disturbed_gap_bytes(p.operands[2], after[2], poison);
  const std::vector<std::span<const std::byte>> inputs(before.begin(), before.end());
  const Op& op = find_op("gemm");
  const Expected expected = op.expect(p, inputs, {}).at(0);
  const Bound bound = op.bound(p, 0, expected, out.report.arithmetic);
  out.found = compare(p.operands[2], after[2], expected, bound, out.report.arithmetic,
                      ~std::uint64_t{0} >> (64 - format(p.operands[2].dtype).bits), true);
  return out;
}

void check_clean(const std::string& id, const TargetSpec& who) {
  CAPTURE(id);
  CAPTURE(who.name());
  CAPTURE(who.library);
  const Outcome out = run(id, who);
  CHECK(out.found.bad == 0);
  CHECK(out.found.over_iid == 0);
  CHECK(out.found.max_over_hard <= 1);
  CHECK(out.disturbed == 0);
  CHECK(out.inputs_kept);
}

/// Every way a call can be laid out, small enough for seconds.
std::vector<std::string> layouts(const std::string& formats) {
  std::vector<std::string> out;
  for (const char* order : {"col", "row"})
    for (const char* ta : {"n", "t"})
      for (const char* tb : {"n", "t"})
        for (const char* rest :
             {"m=33,n=17,k=29", "m=1,n=1,k=1", "m=1,n=40,k=33", "m=40,n=1,k=33", "m=8,n=9,k=0,beta=0.5", "m=0,n=5,k=3",
              "m=5,n=0,k=3", "m=13,n=11,k=19,pada=3,padb=5,padc=7,alpha=-1.5,beta=0.75", "m=6,n=7,k=9,batch=5,gap=3,off=1",
              "m=6,n=7,k=9,batch=5,mode=pointers,beta=1", "m=6,n=7,k=9,batch=3,share=a", "m=6,n=7,k=9,batch=3,share=b,alpha=2",
              "m=9,n=8,k=7,alpha=0,beta=2", "m=9,n=8,k=7,alpha=0", "m=12,n=12,k=64,fill=integer",
              "m=12,n=12,k=64,fill=position", "m=4,n=4,k=4,batch=0"}) {
          std::string id = std::string("g1:gemm:") + rest + ",order=" + order + ",ta=" + ta + ",tb=" + tb + formats;
          if (id.find("fill=") == std::string::npos) id += ",fill=normal";
          out.push_back(id + ",seed=11");
        }
  return out;
}

/// Why f cannot go on, and which of the two kinds of no it is.
std::string no(const std::function<void()>& f) {
  try {
    f();
  } catch (const Unavailable& e) {
    return std::string("unavailable: ") + e.what();
  } catch (const Unsupported& e) {
    return std::string("unsupported: ") + e.what();
  }
  return "";
}

void prepare(const std::string& id, const TargetSpec& who) {
  target(who.target).prepare(make_problem(id), who);
}

struct Variable {
  const char* name;
  Variable(const char* n, const char* value) : name(n) { ::setenv(n, value, 1); }
  ~Variable() { ::unsetenv(name); }
};

const std::string small = "g1:gemm:m=5,n=6,k=7,seed=1";

}  // namespace

TEST_CASE("eigen is right in every layout and format, and reads nothing it must not") {
  for (const char* formats : {"", ",in=f64", ",in=bf16,out=f32", ",in=bf16", ",in=f16", ",in=f16,out=f32"})
    for (const std::string& id : layouts(formats)) check_clean(id, spec("eigen", ""));
}

TEST_CASE("a CBLAS is called right in every layout: 32-bit, 64-bit, decorated names, bf16") {
  for (const char* formats : {"", ",in=f64"})
    for (const std::string& id : layouts(formats)) {
      check_clean(id, spec("cblas", fake("fake_lp64")));
      check_clean(id, spec("cblas", fake("fake_ilp64")));
    }
  for (const std::string& id : layouts(",in=bf16,out=f32")) check_clean(id, spec("openblas", fake("fake_scipy64")));
}

TEST_CASE("the harness of these tests sees one wrong element, one unwritten element and one written gap") {
  const std::string id = "g1:gemm:m=33,n=17,k=29,padc=2,seed=3";
  const auto flipped = run(id, spec("eigen", ""), [](auto& s, const Operand& o) {
    std::byte* at = s.data() + 4 * storage_index(o, 100);
    store_bits(DType::f32, at, load_bits(DType::f32, at) ^ 0x00010000u);
  });
  CHECK(flipped.found.bad == 1);
  const auto unwritten = run(id, spec("eigen", ""),
                             [](auto& s, const Operand& o) { std::fill_n(s.begin() + 4 * storage_index(o, 200), 4, poison); });
  CHECK(unwritten.found.unwritten == 1);
  const auto gap = run(id, spec("eigen", ""), [](auto& s, const Operand&) { s[33 * 4] = std::byte{0}; });
  CHECK(gap.disturbed == 1);
}

TEST_CASE("eigen keeps what it promises about NaN, subnormals and repeats") {
  for (const char* shape : {"m=33,n=17,k=29", "m=1,n=17,k=29", "m=33,n=1,k=29", "m=2,n=3,k=2", "m=130,n=140,k=300"})
    for (const char* fill : {"nan_one", "inf_one", "subnormal"})
      for (const char* in : {"f32", "f64"}) {
        const std::string id = std::string("g1:gemm:") + shape + ",fill=" + fill + ",in=" + in + ",seed=5";
        CAPTURE(id);
        const Outcome out = run(id, spec("eigen", ""));
        CHECK(out.found.bad == 0);
        CHECK(out.report.contract.nan_propagates.made);
        CHECK(out.report.contract.keeps_subnormals.made);
      }
}

TEST_CASE("the report says version, core, threads, integers and how a batch was run") {
  const auto facts = run(small, spec("openblas", fake("fake_openblas"))).report.facts;
  CHECK(facts.at("version") == "OpenBLAS 0.0.1");
  CHECK(facts.at("core") == "Fakewell");
  CHECK(facts.at("threads") == "3");
  CHECK(facts.at("integers") == "32-bit");
  CHECK(facts.at("batched") == "loop");
  CHECK(run(small, spec("cblas", fake("fake_ilp64"))).report.facts.at("integers") == "64-bit");
  CHECK_FALSE(run(small, spec("cblas", fake("fake_ilp64"))).report.facts.contains("core"));
  CHECK(run(small, spec("eigen", "")).report.facts.at("version").starts_with("Eigen 3."));
}

TEST_CASE("the arithmetic declared is that of the call: f32 in f32, f64 in f64, bf16 exactly into f32") {
  const auto arithmetic = [](const std::string& formats, const std::string& name, const std::string& library) {
    return run(small + formats, spec(name, library)).report.arithmetic;
  };
  CHECK(arithmetic("", "cblas", fake("fake_lp64")) == Arithmetic{});
  const Arithmetic f64 = arithmetic(",in=f64", "cblas", fake("fake_lp64"));
  CHECK(f64.operand == DType::f64);
  CHECK(f64.accumulator == DType::f64);
  CHECK(f64.output == DType::f64);
  const Arithmetic bf16 = arithmetic(",in=bf16,out=f32", "openblas", fake("fake_scipy64"));
  CHECK(bf16.operand == DType::bf16);
  CHECK(bf16.accumulator == DType::f32);
  CHECK(bf16.output == DType::f32);
  CHECK(arithmetic(",in=f16", "eigen", "").output == DType::f16);
  CHECK(arithmetic(",in=f16", "eigen", "").accumulator == DType::f32);
}

TEST_CASE("formats outside a target are refused before any library is touched") {
  const auto refused = [](const std::string& formats, const std::string& name) {
    return target(name).refuses(make_problem(small + formats), spec(name, "/nonexistent.so"));
  };
  CHECK(refused(",in=f16", "openblas"));
  CHECK(refused(",in=bf16", "openblas"));
  CHECK(refused(",in=f16,out=f32", "refblas"));
  CHECK_FALSE(refused(",in=bf16,out=f32", "openblas"));
  CHECK_FALSE(refused("", "cblas"));
  CHECK(target("eigen").refuses(make_problem(small), spec("eigen", "", "core=Haswell")));
  CHECK(contains(no([] { prepare(small + ",in=bf16,out=f32", spec("cblas", fake("fake_lp64"))); }), "unsupported: "));
}

TEST_CASE("a library that cannot serve makes the target unavailable, with the reason") {
  CHECK(contains(no([] { prepare(small, spec("openblas", "")); }), "no openblas library was found"));
  CHECK(contains(no([] { prepare(small, spec("openblas", fake("fake_foreign"))); }), "exports no cblas_sgemm"));
  CHECK(contains(no([] { prepare(small, spec("cblas", fake("fake_wrong_sdot"))); }), "cannot decide the integer width"));
}

TEST_CASE("a core type that the library replaces in silence is unavailable, not passed under its name") {
  const Variable asked("OPENBLAS_CORETYPE", "Haswell");
  const std::string why = no([] { prepare(small, spec("openblas", fake("fake_openblas"), "core=Haswell")); });
  CHECK(contains(why, "unavailable: this library answers Fakewell when asked for Haswell"));
}

TEST_CASE("a core type is refused before opening when the CPU lacks it, the worker did not set it, or nobody knows it") {
  CHECK(contains(no([] { prepare(small, spec("openblas", fake("fake_openblas"), "core=Haswell")); }),
                 "OPENBLAS_CORETYPE=Haswell"));
  CHECK(contains(no([] { prepare(small, spec("openblas", fake("fake_openblas"), "core=Z80")); }), "not an OpenBLAS core type"));
  CHECK(contains(no([] { prepare(small, spec("cblas", fake("fake_lp64"), "core=Haswell")); }), "no selectable core types"));
  CHECK(contains(no([] { prepare(small, spec("openblas", fake("fake_openblas"), "speed=9")); }), "has no variant"));
  for (const CoreLevel& level : openblas_levels()) {
    if (level.cpu_has_it) continue;
    // The library does not exist: the answer comes before it is looked for.
    CHECK(contains(no([&] { prepare(small, spec("openblas", "/nonexistent.so", "core=" + level.name)); }),
                   "lacks the instructions"));
  }
}

TEST_CASE("a thread count that the library does not follow is unavailable") {
  {
    const Variable asked("OPENBLAS_NUM_THREADS", "3");
    CHECK(no([] { prepare(small, spec("openblas", fake("fake_openblas"), "threads=3")); }) == "");
  }
  const Variable asked("OPENBLAS_NUM_THREADS", "2");
  CHECK(contains(no([] { prepare(small, spec("openblas", fake("fake_openblas"), "threads=2")); }),
                 "uses 3 threads when asked for 2"));
  CHECK(contains(no([] { prepare(small, spec("openblas", fake("fake_openblas"), "threads=5")); }), "OPENBLAS_NUM_THREADS=5"));
}

TEST_CASE("the BLAS libraries of this machine are called right in every layout") {
  const auto found = find_cblas({});
  if (found.empty()) MESSAGE("not run: no BLAS in the system's folders");
  for (const FoundLibrary& f : found)
    for (const char* formats : {"", ",in=f64"})
      for (const std::string& id : layouts(formats)) {
        if (contains(id, "alpha=0")) continue;  // what real libraries do with poisoned A and B is for a run to say
        check_clean(id, spec(f.family, f.path));
      }
}
