// SPDX-License-Identifier: Apache-2.0
// The graphs say what the problems say: the front end's serialisation of each, computed on the host, passes the judge.
#define DOCTEST_CONFIG_IMPLEMENT
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <set>

#include "evaluator.hpp"
#include "judged_trial.hpp"
#include "probes/library/cudnn_graph.hpp"
#include "probes/library/device_files.hpp"
#include "probes/library/library.hpp"
#include "probes/ops/cudnn_graphs.hpp"
#include "probes/ops/cudnn_plans.hpp"
#include "probes/ops/embedded_devices.hpp"
#include "probes/ops/own_code.hpp"

using namespace assay;
using namespace assay::trial;
using nlohmann::json;

namespace {

std::string cudnn_file, driver_file;

const json& device() {
  static const json found = [] {
    for (const EmbeddedDevice& d : embedded_devices())
      if (d.name == "rtx-5090") return json::parse(d.json);
    throw std::logic_error("rtx-5090 is not embedded");
  }();
  return found;
}

/// Computes the graph of a problem, after `change` was made to it.
class EvaluatedCall final : public Call {
 public:
  EvaluatedCall(const Problem& p, const std::function<void(json&)>& change)
      : problem_(p), description_(find_op(p.id.op).cudnn_graph(p)) {
    for (const cudnn::Description* d : description_.chain()) {
      const cudnn::Graph graph(cudnn::Library::open(cudnn_file, driver_file), *d, device().at("sm"),
                               device().at("properties").dump());
      graphs_.push_back(json::parse(graph.json()));
      for (const auto& [id, bytes] : d->memory) description_.memory[id] = bytes;
    }
    for (const auto& [id, bytes] : description_.between) description_.memory[id].resize(bytes);
    change(graphs_.back());
  }
  void load(Images images) override { images_ = images; }
  void execute() override {
    std::map<std::int64_t, std::byte*> memory;
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
      const Operand& o = problem_.operands[i];
      memory[cudnn_id(i)] = images_[i].storage + o.offset * static_cast<std::int64_t>(size_bytes(o.dtype));
    }
    for (auto& [id, bytes] : description_.memory) memory[id] = bytes.data();
    for (const json& graph : graphs_) cudnn_test::evaluate(graph, memory);
  }
  void store(Images) override {}
  CallReport report() override {
    CallReport r;
    const DType out = problem_.operands[problem_.outputs().front()].dtype;
    r.arithmetic = plain_arithmetic(problem_.operands.front().dtype, DType::f32, out);
    r.contract = own_contract("IEEE 754-2019");
    r.contract.masked_row_is_nan = {true, "IEEE 754-2019"};
    return r;
  }

 private:
  Problem problem_;
  cudnn::Description description_;
  std::vector<json> graphs_;
  Images images_;
};

Target evaluated(std::function<void(json&)> change = [](json&) {}) {
  return {"evaluated", "", {}, [change](const Problem& p, const TargetSpec&) {
            return std::make_unique<EvaluatedCall>(p, change);
          }};
}

/// Applies to the first step that has this attribute.
std::function<void(json&)> changed(const std::string& attribute, const json& value) {
  return [=](json& graph) {
    for (json& node : graph["nodes"])
      if (node.contains(attribute)) {
        node[attribute] = value;
        return;
      }
    throw std::logic_error("no step has " + attribute);
  };
}

}  // namespace

TEST_CASE("every graph of the quick lists computes what its problem asks for") {
  int judged = 0;
  for (const Op& op : all_ops()) {
    if (!op.cudnn_graph) continue;
    std::set<std::string> seen;
    int of_op = 0;
    for (const ListedCase& c : read_case_list(op.cases, "quick", op.name)) {
      const Problem p = make_problem(c.id);
      if (p.flops > 2e6) continue;
      try {
        if (!seen.insert(cudnn::key(op.cudnn_graph(p))).second) continue;
        CAPTURE(c.id);
        Trial t(evaluated(), c.id, "");
        const Judgement j = verdict(t, 1);
        CAPTURE(j.label);
        CAPTURE(j.reason);
        CHECK(j.verdict == report::Verdict::pass);
        CHECK(disturbed_bytes(t, 1) == 0);
        ++of_op;
      } catch (const Unsupported&) {
      } catch (const cudnn::Refused&) {
      }
    }
    CAPTURE(op.name);
    CHECK(of_op > 2);
    judged += of_op;
  }
  std::printf("%d graphs judged\n", judged);
  CHECK(judged > 300);
}

TEST_CASE("a graph that says something else is seen") {
  struct Wrong {
    const char* id;
    std::function<void(json&)> change;
  };
  const char* const conv = "g1:conv1d:n=2,cin=4,cout=6,l=21,k=4,padl=2,padr=1,fill=integer";
  const char* const causal = "g1:attention:hq=4,hkv=2,sq=7,skv=33,d=64,in=bf16,mask=causal_br,window=5,lse=1";
  const char* const lengths = "g1:attention:b=4,hq=2,sq=5,skv=65,d=64,lens=varied,in=bf16";
  const Wrong wrong[] = {
      {conv,
       [](json& g) {
         changed("pre_padding", json{0, 1})(g), changed("post_padding", json{0, 2})(g);
       }},
      {"g1:conv1d:cin=4,cout=6,l=21,k=1,stride=1,fill=integer",
       [](json& g) {
         for (json& t : g["tensors"])
           if (t["uid"] == 1) t["stride"] = {84, 1, 84, 4};
       }},
      {causal, changed("diagonal_alignment", "TOP_LEFT")},
      {causal, changed("left_bound", 6)},
      {causal, changed("right_bound", 1)},
      {lengths,
       [](json& g) {
         for (json& node : g["nodes"])
           node["padding_mask"] = false, node["inputs"].erase("SEQ_LEN_KV"), node["inputs"].erase("SEQ_LEN_Q");
       }},
      {"g1:gemm:m=7,n=5,k=9,bias=1,act=relu,fill=normal", changed("mode", "SUB")},
      {"g1:layernorm:rows=5,n=33,gamma=1,beta=1",
       [](json& g) {
         for (json& node : g["nodes"]) node["inputs"].erase("BIAS");
       }},
  };
  for (const Wrong& w : wrong) {
    CAPTURE(w.id);
    Trial right(evaluated(), w.id, ""), bad(evaluated(w.change), w.id, "");
    CHECK(verdict(right, 1).verdict == report::Verdict::pass);
    CHECK(verdict(bad, 1).verdict != report::Verdict::pass);
  }
}

TEST_CASE("a problem planned twice in one process, and after another shape, gets the same engine, knobs, workspace and plan") {
  const auto make = [](const cudnn::Description& d) {
    return cudnn::Graph(cudnn::Library::open(cudnn_file, driver_file), d, device().at("sm"), device().at("properties").dump());
  };
  const auto planned = [&](const char* id, const char* variant) {
    const std::vector<CudnnPlan> plans =
        cudnn_plans(find_op(case_op(id)).cudnn_graph(make_problem(id)), *parse_cudnn_variant(variant), make);
    const cudnn::Candidate all = cudnn_merged(plans);
    CHECK(all.workspace >= 0);
    CHECK(json::accept(cudnn_plan_json(plans)));
    return fmt::format("{} of {} graphs, workspace {}: {}", cudnn_plan_names(plans), plans.size(), all.workspace,
                       cudnn_plan_json(plans));
  };
  const std::pair<const char*, const char*> cases[] = {
      {"g1:conv1d:n=2,cin=16,cout=32,l=100,k=3,padl=1,padr=1", "mode=A"},
      {"g1:gemm:m=64,n=48,k=512,in=bf16", "mode=B"},
      {"g1:layernorm:rows=9,n=256,gamma=1,beta=1", "mode=A"},
      {"g1:softmax:rows=9,n=67", "mode=fallback"},
      {"g1:conv1d:n=2,cin=16,cout=32,l=100,k=3,padl=1,padr=1", "engine=0"},
  };
  std::set<std::string> different;
  for (const auto& [id, variant] : cases) {
    CAPTURE(id);
    CAPTURE(variant);
    const std::string first = planned(id, variant);
    CHECK((planned(id, variant) == first));  // in brackets: thousands of characters
    planned("g1:conv1d:n=1,cin=8,cout=8,l=37,k=5,padl=2,padr=2", "mode=A");
    CHECK((planned(id, variant) == first));  // in brackets: thousands of characters
    different.insert(first);
  }
  CHECK(different.size() == std::size(cases));
  CHECK(planned("g1:softmax:rows=9,n=67", "mode=A").find(" of 3 graphs") != std::string::npos);
  // Beyond what cuDNN numbers, and an engine that it numbers but that does not take the graph: its words, no crash.
  CHECK_THROWS_WITH_AS(planned("g1:gemm:m=64,n=48,k=512", "engine=99"),
                       doctest::Contains("numbers the engines of this graph 0 to"), cudnn::Refused);
  CHECK_THROWS_AS(planned("g1:softmax:rows=9,n=67", "engine=0"), cudnn::Refused);
}

TEST_CASE("what cuDNN alone would plan is planned without the front end's guards, and the guard is on record") {
  const Problem p = make_problem("g1:attention:hq=2,sq=17,skv=9,window=5,d=64,in=bf16");
  const cudnn::Description d = find_op("attention").cudnn_graph(p);
  const auto with = [&](cudnn::Guards guards) {
    return cudnn::Graph(cudnn::Library::open(cudnn_file, driver_file), d, device().at("sm"), device().at("properties").dump(),
                        guards);
  };
  CHECK_THROWS_WITH_AS(with(cudnn::Guards::on), doctest::Contains("refuses it before cuDNN is asked: Sliding window"),
                       cudnn::Refused);
  cudnn::Graph graph = with(cudnn::Guards::off);
  CHECK(graph.passed_guard().find("cudnn-frontend " + cudnn::front_end_version()) == 0);
  CHECK(!graph.propose(cudnn::Mode::a).empty());
  // Where no guard speaks, nothing is taken out.
  const cudnn::Description plain = find_op("attention").cudnn_graph(make_problem("g1:attention:hq=2,sq=9,skv=17,d=64,in=bf16"));
  CHECK(cudnn::Graph(cudnn::Library::open(cudnn_file, driver_file), plain, device().at("sm"), device().at("properties").dump(),
                     cudnn::Guards::off)
            .passed_guard()
            .empty());
}

int main(int argc, char** argv) {
  const std::map<std::string, std::string> files = find_library_files({});
  std::string why = cudnn::absent();
  if (why.empty() && !files.contains("cudnn")) why = "no cuDNN was found";
  if (!why.empty() || argc < 2) {
    std::printf("not run: %s\n", why.empty() ? "name the driver" : why.c_str());
    return 77;
  }
  cudnn_file = files.at("cudnn"), driver_file = argv[1];
  return doctest::Context(argc - 1, argv + 1).run();
}
