// SPDX-License-Identifier: Apache-2.0
// oneDNN opened by path: what it says of itself, its matmul in every layout, and refusals, on every oneDNN of this machine.
#include "probes/library/onednn.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "onednn_trial.hpp"
#include "probes/library/onednn_symbols.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"

using namespace assay;
using onednn::Library;
using onednn::PostOp;
using onednn::Primitive;
using onednn::Tensor;

namespace {

std::vector<std::string> libraries() {
  return trial::onednn_files();
}

Target target_of(const std::string& path) {
  return trial::bound_to(gemm::onednn_target(), path);
}

TargetSpec spec(const std::string& path, const std::string& variant = "") {
  return trial::onednn_spec(path, variant);
}

std::string no(const std::string& id, const TargetSpec& who) {
  return trial::refusal_of(gemm::onednn_target(), id, who);
}

const std::string small = "g1:gemm:m=5,n=6,k=7,seed=1";

/// oneDNN 2.6 ends the process there on AVX-512 (docs/found.md); tests/e2e sees it in a process of its own.
bool has_size_zero(const std::string& id) {
  for (const char* zero : {"m=0", "n=0", "k=0", "batch=0"})
    if (contains(id, zero)) return true;
  return false;
}

Tensor matrix(std::int64_t rows, std::int64_t columns, DType t = DType::f32) {
  return {.dtype = t, .dims = {rows, columns}, .strides = {columns, 1}};
}

std::vector<float> product(const Library& lib, const std::vector<PostOp>& post_ops, bool with_bias, bool packed) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, -2, 3, -4, 5, -6}, added = {10, 20}, c = {1, 1, 1, 1};
  Tensor weights = matrix(3, 2);
  weights.packed = packed;
  Primitive p = Primitive::matmul(lib, matrix(2, 3), weights, with_bias ? std::optional(matrix(1, 2)) : std::nullopt,
                                  matrix(2, 2), post_ops);
  std::vector<Primitive::Data> data = {
      {onednn::source, a.data()}, {onednn::weights, b.data()}, {onednn::destination, c.data()}};
  if (with_bias) data.push_back({onednn::bias, added.data()});
  p.run(data);
  return c;
}

}  // namespace

TEST_CASE("oneDNN says its version, level, runtime and threads") {
  for (const std::string& path : libraries()) {
    CAPTURE(path);
    const Library& lib = Library::open(path);
    CHECK(&Library::open(path) == &lib);
    CHECK(lib.version_text().starts_with("oneDNN "));
    CHECK(lib.version().major >= 2);
    CHECK_FALSE(lib.isa().starts_with("0x"));
    CHECK(lib.threads() >= 1);
    const auto mapped = mapped_libraries();
    const auto mine = std::find_if(mapped.begin(), mapped.end(), [&](const auto& l) { return l.path == path; });
    REQUIRE(mine != mapped.end());
    CHECK(mine->version == lib.version_text());
  }
}

TEST_CASE("oneDNN's matmul with bias and post-ops gives what hand computation gives, plain and packed") {
  // {1 2 3; 4 5 6} * {1 -2; 3 -4; 5 -6} = {22 -28; 49 -64}
  using V = std::vector<float>;
  for (const std::string& path : libraries())
    for (const bool packed : {false, true}) {
      CAPTURE(path);
      CAPTURE(packed);
      const Library& lib = Library::open(path);
      CHECK(product(lib, {}, false, packed) == V{22, -28, 49, -64});
      CHECK(product(lib, {}, true, packed) == V{32, -8, 59, -44});
      CHECK(product(lib, {{PostOp::relu}}, true, packed) == V{32, 0, 59, 0});
      CHECK(product(lib, {{PostOp::linear, -0.5F}}, false, packed) == V{-11, 14, -24.5F, 32});
      CHECK(product(lib, {{PostOp::sum, 3}}, false, packed) == V{25, -25, 52, -61});
      CHECK(product(lib, {{PostOp::linear, 2}, {PostOp::sum, -1}}, true, packed) == V{63, -17, 117, -89});
      for (const PostOp::Kind gelu : {PostOp::gelu_erf, PostOp::gelu_tanh}) {
        const V got = product(lib, {{PostOp::linear, 0.03125F}, {gelu}}, false, packed);
        CHECK(got[0] == doctest::Approx(0.6875 * 0.7541).epsilon(0.002));  // x Phi(x)
        CHECK(got[1] == doctest::Approx(-0.875 * 0.1908).epsilon(0.01));
      }
    }
}

TEST_CASE("oneDNN is called right in every layout, f32 and bf16, plain and packed") {
  for (const std::string& path : libraries())
    for (const char* variant : {"", "layout=packed"})
      for (const char* formats : {"", ",in=bf16,out=f32", ",in=bf16"}) {
        CAPTURE(path);
        CAPTURE(formats);
        if (!no(small + formats, spec(path)).empty()) {
          MESSAGE("not run: ", no(small + formats, spec(path)));
          continue;
        }
        for (const std::string& id : trial::exact_layouts(formats))
          if (!has_size_zero(id)) trial::require_exact(target_of(path), variant, id);
      }
}

TEST_CASE("oneDNN's report says algorithm, level and how weights and batches were given") {
  for (const std::string& path : libraries()) {
    CAPTURE(path);
    trial::Trial t(target_of(path), small + ",batch=2", "layout=packed");
    t.run(1);
    const CallReport report = t.call->report();
    CHECK_FALSE(report.algorithm.empty());
    CHECK(report.facts.at("core") == Library::open(path).isa());
    CHECK(report.facts.at("layout") == "packed by the library");
    CHECK(report.facts.at("batched") == "one call");
    CHECK(report.arithmetic == Arithmetic{});
    CHECK(report.contract.nan_confined.made);
    CHECK_FALSE(report.contract.nan_propagates.made);
  }
}

TEST_CASE("what oneDNN cannot do is unsupported in the library's own word, or refused before it is touched") {
  CHECK(gemm::onednn_target().refuses(make_problem(small + ",in=f64"), spec("/nonexistent.so")));
  CHECK_FALSE(gemm::onednn_target().refuses(make_problem(small + ",in=f16"), spec("/nonexistent.so")));
  for (const std::string& path : libraries()) {
    CAPTURE(path);
    const Library& lib = Library::open(path);
    // An f64 source with f32 weights: a combination that no oneDNN for CPUs has.
    CHECK_THROWS_AS(Primitive::matmul(lib, matrix(2, 3, DType::f64), matrix(3, 2), {}, matrix(2, 2), {}), std::exception);
    if (lib.version().major >= 3) {
      trial::require_exact(target_of(path), "", "g1:gemm:m=0,n=3,k=2,beta=2,fill=integer");
      CHECK(contains(no("g1:gemm:m=3,n=2,k=0", spec(path)), "does not define sums of no terms"));
    }
    if (lib.version().major == 2)
      CHECK(contains(no(small + ",in=f16", spec(path)),
                     "unsupported: dnnl_primitive_desc_create for matmul answered 3: unimplemented"));
  }
}

TEST_CASE("a file that cannot serve as oneDNN makes the target unavailable, with the reason") {
  CHECK(contains(no(small, spec("")), "no oneDNN was found"));
  CHECK(contains(no(small, spec(fake("fake_openblas"))), "exports no dnnl_version"));
  CHECK(contains(refusal([] { find_libraries({"onednn=" + fake("fake_openblas")}); }), "exports no dnnl_version"));
  for (const std::string& path : libraries()) {
    CHECK(find_libraries({"onednn=" + path}).at(0).family == "onednn");
    CHECK(find_libraries({path}).at(0).family == "onednn");
    CHECK(find_cblas({path}).empty());
    CHECK(contains(refusal([&] { find_libraries({"openblas=" + path}); }), "that file is onednn"));
    CHECK_FALSE(refusal([&] { find_libraries({"cblas=" + path}); }).empty());
  }
}

TEST_CASE("a oneDNN level is refused when unset, unknown, beyond the CPU, or replaced by the library") {
  for (const CoreLevel& level : onednn_levels())
    CHECK(contains(no(small, spec("/nonexistent.so", "isa=" + level.name)),
                   level.cpu_has_it ? "ONEDNN_MAX_CPU_ISA=" + level.name : "lacks the instructions"));
  CHECK(contains(no(small, spec("/nonexistent.so", "isa=Z80")), "not a oneDNN instruction-set level"));
  CHECK(contains(no(small, spec("/nonexistent.so", "speed=9")), "has no variant"));
  ::setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);  // too late for a library that is open: it has read it already
  for (const std::string& path : libraries()) {
    Library::open(path);
    if (Library::open(path).isa() != "SSE41") CHECK(contains(no(small, spec(path, "isa=SSE41")), "silently replaced it"));
  }
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
}

TEST_CASE("major 2 writes no more of a memory descriptor than there is room for") {
  for (const std::string& path : libraries()) {
    const onednn::Symbols& s = Library::open(path).symbols();
    if (s.major != 2) continue;
    std::size_t touched = 0;
    const std::int64_t dims[] = {3, 5, 7}, strides[] = {35, 7, 1};
    for (const std::uint8_t pattern : {0x00, 0xFF}) {
      std::vector<std::uint8_t> room(onednn::memory_descriptor_room, pattern);
      REQUIRE(s.dnnl_memory_desc_init_by_strides(room.data(), 3, dims, 3, strides) == onednn::success);
      for (std::size_t i = 0; i < room.size(); ++i)
        if (room[i] != pattern) touched = std::max(touched, i + 1);
      CHECK(s.dnnl_memory_desc_get_size(room.data()) == 3 * 5 * 7 * 4);
    }
    CHECK(touched >= 600);
    CHECK(touched <= 800);  // 696 in 2.6
  }
}

TEST_CASE("a byte written before or after the scratchpad is seen") {
  onednn::Room room(100);
  room.poison();
  CHECK_NOTHROW(room.check("scratchpad"));
  CHECK(room.data()[0] == std::byte{0xFF});
  room.data()[99] = std::byte{1};
  CHECK_NOTHROW(room.check("scratchpad"));
  for (const int at : {-1, 100, 150}) {
    room.poison();
    room.data()[at] = std::byte{1};
    CHECK_THROWS_WITH(room.check("scratchpad"), "oneDNN wrote outside the 100 bytes of its scratchpad");
  }
}
