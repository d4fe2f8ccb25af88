// SPDX-License-Identifier: Apache-2.0
#include "probes/device/checks.hpp"

#include <fmt/format.h>

#include "kernels/compiler_traps.hpp"
#include "kernels/inputs.hpp"
#include "probes/device/build.hpp"
#include "probes/device/context.hpp"
#include "reference/digest.hpp"
#include "reference/inputs.hpp"

namespace assay::device {

namespace {

constexpr std::pair<const char*, Family> families[] = {
    {"normal", Family::normal}, {"uniform", Family::uniform}, {"integer", Family::integer}};
constexpr std::pair<const char*, DType> formats[] = {
    {"f32", DType::f32}, {"f64", DType::f64}, {"bf16", DType::bf16}, {"f16", DType::f16}};

}  // namespace

int check_inputs(const std::string& driver, int ordinal, const std::map<std::string, std::string>& set, long long count,
                 std::string& lines) {
  const Context& context = Context::get(driver, ordinal);
  const Image image = make_image(Build{}, "kernels/inputs.cu", context.sm(), set);
  const Module module(context, image.bytes, -1);
  const Stream stream(context);
  int different = 0;
  for (const auto& [family_name, family] : families)
    for (const auto& [format_name, format] : formats) {
      const Operand operand{.dtype = format, .dims = {count}, .strides = {1}, .span = count, .stream = 3};
      std::vector<std::byte> host(static_cast<std::size_t>(count) * size_bytes(format)), made(host.size());
      fill(operand, {.family = family, .limit = 9}, 1, host);
      const Buffer out(context, host.size());
      out.poison(stream);
      const kernels::InputsArgs args{device_pointer(out.address()), count, 1, 3, 9};
      launch(context, module.function(fmt::format("inputs_{}_{}", family_name, format_name)), kernels::inputs_launch(args),
             std::as_bytes(std::span(&args, 1)), stream);
      out.download(stream, made);
      const std::string ours = hex(digest_tensor(operand, host)), theirs = hex(digest_tensor(operand, made));
      different += ours != theirs;
      lines += fmt::format("inputs {:<8} {:<5} {} elements: device {}, host {}, {}\n", family_name, format_name, count, theirs,
                           ours, ours == theirs ? "equal" : "DIFFERENT");
    }
  return different;
}

int check_traps(const std::string& driver, int ordinal, const std::map<std::string, std::string>& set, std::string& lines) {
  constexpr long long count = 1013;  // not a whole number of warps
  const Context& context = Context::get(driver, ordinal);
  const Stream stream(context);
  std::vector<unsigned> in(count), got(count);
  int different = 0;
  for (const Build& build : all_builds(set)) {
    if (build.fast) continue;
    const Image image = make_image(build, "kernels/compiler_traps.cu", context.sm(), set);
    const Module module(context, image.bytes, image.ptx ? build.level : -1);
    int wrong = 0;
    for (const kernels::Trap& trap : kernels::traps)
      for (const unsigned seed : {1u, 2u, 3u}) {
        for (long long i = 0; i < count; ++i) in[static_cast<std::size_t>(i)] = kernels::trap::input(i, seed);
        const Buffer from(context, count * sizeof(unsigned)), to(context, count * sizeof(unsigned));
        from.upload(stream, std::as_bytes(std::span(in)));
        to.poison(stream);
        const kernels::TrapArgs args{device_pointer(from.address()), device_pointer(to.address()), count};
        launch(context, module.function(fmt::format("trap_{}", trap.name)), kernels::trap_launch(args),
               std::as_bytes(std::span(&args, 1)), stream);
        to.download(stream, std::as_writable_bytes(std::span(got)));
        const kernels::trap::Words words{in.data(), count};
        long long bad = 0, first = -1;
        for (long long i = 0; i < count; ++i)
          if (got[static_cast<std::size_t>(i)] != trap.expected(words, i) && bad++ == 0) first = i;
        if (bad == 0) continue;
        lines += fmt::format("traps {} built as {} ({}): {} of {} words wrong, first {}; {}; reported at {}\n", trap.name,
                             name(build), image.compiler, bad, count, first, trap.what, trap.source);
        ++wrong;
        break;
      }
    lines +=
        fmt::format("traps built as {} ({}): {} of {} wrong\n", name(build), image.compiler, wrong, std::size(kernels::traps));
    different += wrong;
  }
  return different;
}

}  // namespace assay::device
