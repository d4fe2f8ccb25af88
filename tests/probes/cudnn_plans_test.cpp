// SPDX-License-Identifier: Apache-2.0
// The variants of the targets "cudnn": what they ask for, and that lists and parser agree.
#include "probes/ops/cudnn_plans.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "probes/ops/op.hpp"

using namespace assay;

TEST_CASE("a variant of cudnn names a heuristic or an engine, then guards and state") {
  const auto engine = parse_cudnn_variant("engine=28");
  REQUIRE(engine);
  CHECK((engine->engine == 28 && !engine->mode && engine->guards == cudnn::Guards::on));
  const auto all = parse_cudnn_variant("mode=B+guards=off+state=twice");
  REQUIRE(all);
  CHECK((all->mode == cudnn::Mode::b && all->guards == cudnn::Guards::off && all->state == CudnnChoice::State::twice));
  CHECK(parse_cudnn_variant("engine=3+state=other_shape")->state == CudnnChoice::State::other_shape);
  for (const char* wrong : {"", "mode=C", "engine=", "engine=-1", "engine=1x", "guards=off", "mode=A+", "mode=A++guards=off",
                            "mode=A+guards=on", "mode=A+state=twice+state=twice", "mode=A+mode=B"}) {
    CAPTURE(wrong);
    CHECK(!parse_cudnn_variant(wrong));
  }
}

TEST_CASE("deep has every engine by number, the states and the guards, for each operation of cuDNN") {
  int targets = 0;
  for (const Op& op : all_ops())
    for (const Target& t : op.targets) {
      if (t.name != "cudnn") continue;
      ++targets;
      CAPTURE(op.name);
      for (const auto* list : {&t.variants, &t.deep_variants})
        for (const std::string& variant : *list) CHECK(parse_cudnn_variant(variant));
      const auto has = [&](const char* v) { return std::ranges::find(t.deep_variants, v) != t.deep_variants.end(); };
      CHECK((has("engine=0") && has("mode=A+state=twice") && has("mode=A+state=other_shape") && has("mode=A+guards=off")));
      CHECK(has("engine=84") == op.name.starts_with("conv"));  // cuDNN 9.19 numbers 81 and 85 of theirs, 12 at most elsewhere
    }
  CHECK(targets == 6);
}
