// SPDX-License-Identifier: Apache-2.0
// --libraries: every form it takes, and one sentence for every other.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "fakes.hpp"
#include "probes/library/library.hpp"

using namespace assay;

namespace {

std::string refusal(const std::string& choice) {
  return assay::refusal([&] { find_cblas({choice}); });
}

}  // namespace

TEST_CASE("a library is taken by name and path, or by path alone") {
  const std::string path = std::filesystem::canonical(fake("fake_openblas")).string();
  for (const std::string& choice : {"openblas=" + path, path, "cblas=" + path}) {
    const auto found = find_cblas({choice});
    REQUIRE(found.size() == 1);
    CHECK(found[0].path == path);
    CHECK(found[0].how == "--libraries");
    CHECK(found[0].family == (choice.starts_with("cblas=") ? "cblas" : "openblas"));
  }
  CHECK(find_cblas({fake("fake_reference")})[0].family == "refblas");
  CHECK(find_cblas({"refblas=" + fake("fake_lp64")})[0].family == "refblas");
}

TEST_CASE("several choices add up, the same file only once under one name") {
  const auto found = find_cblas({"openblas=" + fake("fake_openblas"), "cblas=" + fake("fake_ilp64"), fake("fake_openblas")});
  REQUIRE(found.size() == 2);
  CHECK(found[0].family == "openblas");
  CHECK(found[1].family == "cblas");
}

TEST_CASE("a wrong choice is refused with what, why, and the forms that are taken") {
  CHECK(contains(refusal("openblas=/nonexistent.so"), "No such file"));
  CHECK(contains(refusal("openblas=" + system_libm()), "exports no cblas_sgemm"));
  CHECK(contains(refusal("blis=" + fake("fake_openblas")), "that file is openblas"));
  CHECK(contains(refusal("openblas=" + fake("fake_lp64")), "a CBLAS of unknown make"));
  CHECK(contains(refusal("atlas=" + fake("fake_lp64")), "\"atlas\" is not a known library name"));
  CHECK(contains(refusal("openblas="), "the path is empty"));
  CHECK(contains(refusal(""), "the value is empty"));
  CHECK(contains(refusal("openblas"), "neither a name with a path nor a path"));
  CHECK(contains(refusal("from-python /nonexistent/python3"), "No such file"));
  CHECK(contains(refusal("/usr/share"), "nothing there is a library that assay knows"));
  CHECK(contains(refusal("openblas=/usr/lib"), "that is a folder"));
  CHECK(contains(refusal("ptxas="), "the path is empty"));
  for (const char* choice : {"", "openblas", "openblas=/usr/lib", "atlas=/x"})
    CHECK_MESSAGE(contains(refusal(choice), "expected auto, NAME=PATH"), choice);
}

TEST_CASE("a folder gives the libraries in it and in its lib, each once") {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(ASSAY_BINARY_DIR) / "found_folder";
  fs::remove_all(root);
  fs::create_directories(root / "lib");
  fs::create_directories(root / "numpy.libs");
  fs::copy_file(fake("fake_openblas"), root / "lib/libopenblas.so.0");
  fs::create_symlink("libopenblas.so.0", root / "lib/libopenblas.so");
  fs::copy_file(fake("fake_scipy64"), root / "numpy.libs/libscipy_openblas64_-6bb31eeb.so");
  fs::copy_file(fake("fake_foreign"), root / "lib/libblas.so");
  const auto found = find_libraries({root.string()});
  REQUIRE(found.size() == 2);
  CHECK(found[0].path == fs::canonical(root / "lib/libopenblas.so.0").string());
  CHECK(found[0].how == "folder " + root.string());
  CHECK(found[1].family == "openblas");
  fs::remove_all(root);
}

TEST_CASE("auto lists each real file of the system's folders once, and only libraries with a CBLAS") {
  const auto found = find_cblas({});
  CHECK(find_cblas({"auto"}).size() == found.size());
  std::set<std::string> paths;
  for (const FoundLibrary& f : found) {
    CHECK_MESSAGE(paths.insert(f.path).second, f.path);
    CHECK(std::filesystem::canonical(f.path).string() == f.path);
    CHECK(f.how == "system directory");
    CHECK(cblas_naming(read_library(f.path)).family == f.family);
  }
  if (!std::filesystem::exists(debian_openblas)) {
    MESSAGE("not run: no ", debian_openblas);
    return;
  }
  REQUIRE(!found.empty());
  CHECK(found[0].family == "openblas");
}
