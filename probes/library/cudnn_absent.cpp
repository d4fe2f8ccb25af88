// SPDX-License-Identifier: Apache-2.0
// In place of cudnn_graph.cpp where its headers were not there at build time.
#include "probes/library/cudnn_graph.hpp"
#include "probes/library/library.hpp"

namespace assay::cudnn {

struct Graph::Parts {};

namespace {

[[noreturn]] void refuse() {
  throw LibraryError(absent());
}

}  // namespace

std::string absent() {
  return "this build of assay has no cuDNN part: cudnn_frontend.h, cudnn.h or cuda_runtime_api.h was not found when it was "
         "built; see ASSAY_CUDNN in CMakeLists.txt";
}
std::string front_end_version() {
  return {};
}
const Library& Library::open(const std::string&, const std::string&) {
  refuse();
}
Graph::Graph(const Library&, const Description&, int, const std::string&, Guards) {
  refuse();
}
Graph::Graph(const Library&, const Description&, int, Guards) {
  refuse();
}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
const std::string& Graph::passed_guard() const {
  refuse();
}
std::string Graph::json() const {
  refuse();
}
std::int64_t Graph::engine_count() const {
  refuse();
}
std::vector<int> Graph::propose(Mode) {
  refuse();
}
int Graph::propose_engine(std::int64_t) {
  refuse();
}
const std::vector<Candidate>& Graph::candidates() const {
  refuse();
}
void Graph::finalise(int) {
  refuse();
}
std::string Graph::plan_json(int) const {
  refuse();
}
void Graph::execute(int, void*, const std::map<std::int64_t, void*>&, void*) const {
  refuse();
}

}  // namespace assay::cudnn
