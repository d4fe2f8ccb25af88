// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/onednn_target.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "probes/ops/variant.hpp"

namespace assay::onednn {

namespace {

/// Before the library is opened.
void check_variant(const TargetSpec& spec) {
  if (spec.variant.empty() || spec.variant == "layout=packed") return;
  if (const std::string threads = variant_option(spec, "threads="); !threads.empty())
    return require_environment(spec, "OMP_NUM_THREADS", threads);
  if (const std::string isa = variant_option(spec, "isa="); !isa.empty()) {
    const std::vector<CoreLevel> levels = onednn_levels();
    const auto known = std::ranges::find(levels, isa, &CoreLevel::name);
    if (known == levels.end())
      throw Unavailable(fmt::format("\"{}\" is not a oneDNN instruction-set level that assay knows", isa));
    if (!known->cpu_has_it)
      throw Unavailable(fmt::format("this CPU, or its operating system, lacks the instructions of {}", isa));
    return require_environment(spec, "ONEDNN_MAX_CPU_ISA", isa);
  }
  throw Unavailable(
      fmt::format("{} has no variant \"{}\"; expected isa=NAME, layout=packed or threads=N", spec.target, spec.variant));
}

/// After it is opened: a level that the library does not know, or that was built out of it, is replaced in silence.
void check_answer(const TargetSpec& spec, const Library& library) {
  if (const std::string isa = variant_option(spec, "isa="); !isa.empty() && library.isa() != isa)
    throw Unavailable(fmt::format("this library answers {} when asked for {}: it silently replaced it", library.isa(), isa));
  if (const std::string threads = variant_option(spec, "threads=");
      !threads.empty() && fmt::to_string(library.threads()) != threads)
    throw Unavailable(fmt::format("this library uses {} threads when asked for {} ({} runtime)", library.threads(), threads,
                                  library.runtime_text()));
}

}  // namespace

std::byte* TargetCall::at(std::size_t operand, std::int64_t index) const {
  const Operand& o = problem_.operands[operand];
  return images_[operand].storage + (o.offset + index) * static_cast<std::int64_t>(size_bytes(o.dtype));
}

CallReport TargetCall::base_report(DType in, DType out, const Primitive& primitive) const {
  CallReport r;
  // oneDNN developer guide, Data Types: floating-point primitives accumulate in f32 by default (accumulation_mode strict),
  // nothing is converted down unless fpmath_mode allows it (set to strict here), post-ops run in f32, and the result is
  // converted to the type of dst once. Documented as faithful; every x86-64 conversion instruction rounds to nearest.
  r.arithmetic.operand = in;
  r.arithmetic.accumulator = r.arithmetic.split_format = DType::f32;
  r.arithmetic.output = out;
  r.algorithm = primitive.implementation();
  r.facts["version"] = library_.version_text();
  r.facts["core"] = library_.isa();
  r.facts["runtime"] = library_.runtime_text();
  if (library_.threads() > 0) r.facts["threads"] = fmt::to_string(library_.threads());
  r.facts["layout"] = packed_ ? "packed by the library" : "as given";
  return r;
}

Promise TargetCall::nan_confined() {
  return {true, "oneDNN issue 5717, NaN of one row in the results of another, was a bug and fixed by pull request 5723"};
}

Promise TargetCall::keeps_subnormals(DType in) const {
  if (in != DType::f32 || library_.version().major < 3) return {};
  return {true,
          "oneDNN developer guide, Data Types, Rounding mode and denormal handling: \"Computation on denormals are not flushed "
          "to zero by default\"; low-precision instructions such as AMX are excepted"};
}

Tensor tensor_of(const Operand& o) {
  return {.dtype = o.dtype, .dims = o.dims, .strides = o.strides};
}

std::optional<std::string> refuses_f64(DType in) {
  if (in == DType::f64) return "oneDNN computes in f64 on GPU engines only (developer guide, Data Types)";
  return std::nullopt;
}

double exp_ulps_per_x(const Library& library) {
  const std::string isa = library.isa();
  return isa == "SSE41" || isa == "AVX" ? 0.525 : 0.025;  // an ulp is up to 2 u
}

std::unique_ptr<Call> prepare(const TargetSpec& spec, const Make& make) {
  if (spec.library.empty())
    throw Unavailable(
        "no oneDNN was found; install one (libdnnl2, onednn-cpu-gomp), or name its file with --libraries onednn=PATH");
  check_variant(spec);
  try {
    const Library& library = Library::open(spec.library);
    check_answer(spec, library);
    return make(library, spec.variant == "layout=packed");
  } catch (const LibraryError& e) {
    throw Unavailable(e.what());
  } catch (const Refused& e) {
    throw Unsupported(e.what());
  }
}

}  // namespace assay::onednn
