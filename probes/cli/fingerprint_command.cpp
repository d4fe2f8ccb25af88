// SPDX-License-Identifier: Apache-2.0
// assay fingerprint: how each target adds and multiplies, to be compared between builds and devices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "probes/cli/commands.hpp"
#include "probes/run/fingerprint.hpp"
#include "probes/run/process.hpp"
#include "probes/run/runner.hpp"

namespace assay::cli {

namespace {

std::string answers(const std::vector<ProbeAnswer>& all, bool with_what) {
  std::string text;
  for (const ProbeAnswer& a : all)
    text += fmt::format("{}{} {:g}{}", text.empty() ? "" : ", ", with_what ? a.what + ":" : a.name, a.value,
                        a.uniform ? "" : " (not everywhere)");
  return text;
}

std::string names(const std::vector<std::string>& all) {
  return all.empty() ? "none of the published models" : fmt::format("{}", fmt::join(all, ", "));
}

void print(const Fingerprint& f) {
  const std::string name = (f.variant.empty() ? f.target : f.target + ":" + f.variant) + " " + f.formats;
  if (!f.refused.empty()) {
    fmt::print("{}  {}\n", name, f.refused);
    return;
  }
  fmt::print("{}{}\n", name, f.library.empty() ? "" : "  " + f.library);
  fmt::print("  declared  {}\n", f.declared);
  fmt::print("  sums      as {}\n            {}\n", names(f.like), answers(f.sums, false));
  if (!f.operands.empty())
    fmt::print("  operands  as {}\n            {}\n",
               f.operands_like.empty() ? "no single format" : fmt::format("{}", fmt::join(f.operands_like, ", ")),
               answers(f.operands, true));
  for (const OrderSeen& o : f.orders)
    fmt::print("  order     k = {}: as {}; {:g} beside, {:g} across{}; {}\n", o.k, names(o.like), o.beside, o.across,
               o.columns_alike ? "" : "; columns differ", o.digest);
  const auto best = std::ranges::max_element(f.bits_like, {}, [](const auto& m) { return m.second; });
  fmt::print("  results   {:.1f} % have the bits of {}; bias {:+.2f}, {} common zero bits{}; {}\n", 100 * best->second,
             best->first, f.bias, f.zero_bits, f.repeats ? "" : "; A SECOND CALL GAVE OTHER BITS", f.digest);
}

}  // namespace

int fingerprint(const FingerprintArguments& args) {
  nlohmann::json all = nlohmann::json::array();
  int taken = 0;
  for (const Candidate& c : choose_targets({args.targets, args.libraries, args.deep, true, args.kernel_builds, args.device})) {
    std::vector<Fingerprint> prints;
    if (c.unavailable.empty()) {
      prints = assay::fingerprint(c.spec, args.deadline_s);
    } else if (!args.json) {
      fmt::print("{}  unavailable: {}\n", c.spec.name(), c.unavailable);
    }
    for (const Fingerprint& f : prints) {
      taken += f.refused.empty();
      if (args.json)
        all.push_back(to_json(f));
      else
        print(f);
    }
    if (interrupted) return 3;
  }
  if (args.json) fmt::print("{}\n", all.dump(1));
  if (taken == 0) fmt::print(stderr, "assay: no target gave a fingerprint; `assay list targets` shows what there is\n");
  return taken == 0 ? 2 : 0;
}

}  // namespace assay::cli
