// SPDX-License-Identifier: Apache-2.0
// Sets of CUDA files: found by folder, wheel layout and Python, chosen from, and the traps between them.
#include "probes/library/library_set.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "fakes.hpp"
#include "probes/library/device_files.hpp"
#include "probes/library/python.hpp"

using namespace assay;
namespace fs = std::filesystem;

namespace {

/// A folder of made-up installations: a file of CUDA is any shared library under the right name.
struct Installations {
  fs::path root = fs::path(ASSAY_BINARY_DIR) / ("installations-" + std::to_string(getpid()));
  Installations() {
    fs::remove_all(root);
    fs::create_directories(root);
    root = fs::canonical(root);
  }
  ~Installations() { fs::remove_all(root); }
  Installations(const Installations&) = delete;
  Installations& operator=(const Installations&) = delete;

  std::string library(const std::string& path) const {
    fs::create_directories((root / path).parent_path());
    fs::copy_file(fake("fake_foreign"), root / path);
    return (root / path).string();
  }
  std::string text(const std::string& path, const std::string& content, bool program = false) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << content;
    if (program) fs::permissions(root / path, fs::perms::owner_all);
    return (root / path).string();
  }
};

const LibrarySet& only(const std::vector<LibrarySet>& sets, LibrarySet::Kind kind) {
  const auto found = std::ranges::find(sets, kind, &LibrarySet::kind);
  REQUIRE(found != sets.end());
  CHECK(std::ranges::count(sets, kind, &LibrarySet::kind) == 1);
  return *found;
}

std::string version_of(const LibrarySet& set, std::string_view role) {
  const SetFile* f = set.file(role);
  return f == nullptr ? "absent" : f->version;
}

bool any_contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(texts, [&](const std::string& t) { return contains(t, part); });
}

SetFile file(const std::string& role, const std::string& path, const std::string& version = "",
             const std::string& package = "") {
  return {.role = role,
          .path = path,
          .soname = fs::path(path).filename().string(),
          .version = version,
          .package = package,
          .build_id = {}};
}

using Kind = LibrarySet::Kind;

}  // namespace

TEST_CASE("a toolkit folder is one set, with the versions of its version.json or of its file names") {
  const Installations at;
  const std::string nvrtc = at.library("lib64/libnvrtc.so.12");
  at.library("lib64/libcublas.so.12.8.4.1"), at.library("lib64/libcublasLt.so.12.8.4.1"), at.library("lib64/libcudnn.so.9");
  at.text("lib64/libcudart.so.12", "not a library");
  const std::string ptxas = at.text("bin/ptxas", "#!/bin/sh\n", true);
  at.text("version.json",
          R"({"cuda_nvrtc": {"name": "x", "version": "12.8.93"}, "cuda_nvcc": {"version": "12.8.90"}, "libcublas": 3})");
  const std::vector<LibrarySet> sets = find_library_sets({at.root.string()});
  const LibrarySet& set = only(sets, Kind::folder);
  CHECK(set.origin == "folder " + at.root.string());
  CHECK(set.file("nvrtc")->path == nvrtc);
  CHECK(version_of(set, "nvrtc") == "12.8.93");
  CHECK(version_of(set, "ptxas") == "12.8.90");
  CHECK(version_of(set, "cublas") == "12.8.4.1");
  CHECK(version_of(set, "cudnn") == "9");
  CHECK(version_of(set, "cudart") == "absent");
  CHECK(cuda_major(*set.file("cublas")) == 12);
  CHECK(cuda_major(*set.file("cudnn")) == 0);

  const auto files = find_device_files({at.root.string()});
  CHECK(files.at("nvrtc") == nvrtc);
  CHECK(files.at("ptxas") == ptxas);
  const auto libraries = find_library_files({at.root.string()});
  CHECK(libraries.size() == 3);
  CHECK(contains(libraries.at("cublasLt"), "libcublasLt.so.12.8.4.1"));
}

TEST_CASE("both wheel layouts are read through the Python that has them, which imports nothing") {
  const Installations at;
  const std::string site = "env/lib/python3.11/site-packages";
  at.library(site + "/nvidia/cublas/lib/libcublas.so.12"), at.library(site + "/nvidia/cublas/lib/libcublasLt.so.12");
  at.library(site + "/nvidia/cudnn/lib/libcudnn.so.9");
  at.text(site + "/nvidia_cublas_cu12-12.8.4.1.dist-info/RECORD",
          "nvidia/cublas/lib/libcublas.so.12,sha256=x,1\nnvidia/cublas/lib/libcublasLt.so.12,sha256=y,2\n");
  at.text(site + "/nvidia_cudnn_cu12-9.10.2.21.dist-info/RECORD", "nvidia/cudnn/lib/libcudnn.so.9,sha256=x,1\n");
  const std::string other = "env/lib/python3.11/dist-packages";
  at.library(other + "/nvidia/cu13/lib/libcublas.so.13"), at.library(other + "/nvidia/cu13/lib/libnvrtc.so.13");
  at.text(other + "/nvidia/cu13/bin/ptxas", "", true);
  const std::string python = at.text("env/bin/python3",
                                     "#!/bin/sh\n[ \"$1\" = -c ] || exit 1\ncase $2 in *'import sys'*) ;; *) exit 1 ;; esac\n"
                                     "echo\necho /nonexistent/site-packages\necho '" +
                                         (at.root / site).string() + "'\necho '" + (at.root / other).string() + "'\n",
                                     true);
  for (const std::vector<std::string>& choice : {std::vector<std::string>{"from-python " + python},
                                                 {"from-python=" + python},
                                                 {"from-python", python},
                                                 {"from-python", (at.root / "env").string()}}) {
    const std::vector<LibrarySet> sets = find_library_sets(choice);
    REQUIRE(sets.size() >= 2);
    CHECK(version_of(sets[0], "cublasLt") == "12.8.4.1");
    CHECK(version_of(sets[0], "cudnn") == "9.10.2.21");
    CHECK(cuda_major(*sets[0].file("cudnn")) == 12);
    CHECK(cuda_major(*sets[1].file("nvrtc")) == 13);
    CHECK(sets[1].file("ptxas") != nullptr);
    const auto libraries = find_library_files(choice);
    CHECK(contains(libraries.at("cublas"), "libcublas.so.12"));         // of the set that has a cuBLASLt
    CHECK(find_libraries(choice).size() == find_libraries({}).size());  // it brought none for the CPU: the system's
  }
}

TEST_CASE("a Python that cannot be asked is refused with the reason") {
  const Installations at;
  CHECK(contains(refusal([] { find_library_sets({"from-python /nonexistent/python3"}); }), "No such file"));
  const std::string failing = at.text("python3", "#!/bin/sh\nexit 7\n", true);
  CHECK(contains(refusal([&] { python_folders(failing); }), "exit code 7"));
  CHECK(contains(refusal([&] { find_library_sets({"from-python", at.root.string()}); }), "has no bin/python3"));
}

TEST_CASE("a cuBLAS that is named alone takes the cuBLASLt beside it, or none") {
  const Installations at;
  const std::string with = at.library("with/libcublas.so.13"), beside = at.library("with/libcublasLt.so.13");
  const std::string alone = at.library("alone/libcublas.so.13");
  CHECK(find_library_files({"cublas=" + with, "auto"}).at("cublasLt") == beside);
  CHECK_FALSE(find_library_files({"cublas=" + alone, "auto"}).contains("cublasLt"));
  CHECK(find_library_files({"cublas=" + alone, "cublasLt=" + beside}).at("cublasLt") == beside);
}

TEST_CASE("a named file wins, the driver may be named too, and a wrong one is refused") {
  const Installations at;
  const std::string driver = at.library("libcuda.so.1"), nvrtc = at.library("libnvrtc.so.13");
  const std::string ptxas = at.text("ptxas", "#!/bin/sh\n", true), text = at.text("text", "x");
  const auto files = find_device_files({"cuda=" + driver, "nvrtc=" + nvrtc, "ptxas=" + ptxas});
  CHECK(files.at("cuda") == driver);
  CHECK(files.at("nvrtc") == nvrtc);
  CHECK(files.at("ptxas") == ptxas);
  CHECK(contains(refusal([&] { find_device_files({"ptxas=" + text}); }), "no program that can be started"));
  CHECK(contains(refusal([&] { find_device_files({"cuda=" + text}); }), "a text file"));
  CHECK(contains(refusal([&] { find_device_files({"cuda=" + at.root.string()}); }), "that is a folder"));
}

TEST_CASE("a stub is taken only when there is no other driver, and is never called one") {
  const Installations at;
  at.library("toolkit/lib64/stubs/libcuda.so.1");
  const std::string real = at.library("driver/libcuda.so.1");
  const std::string stubs = (at.root / "toolkit/lib64/stubs").string();
  const std::vector<LibrarySet> sets = find_library_sets({stubs, (at.root / "driver").string()});
  REQUIRE(sets.size() >= 2);
  CHECK(sets[0].file("cuda")->stub);
  CHECK(find_device_files({stubs, (at.root / "driver").string()}).at("cuda") == real);
  CHECK(any_contains(warnings(sets, {}), "is the stub"));
}

TEST_CASE("every trap is told in one sentence, and a clean set has none but a compiler of one major") {
  const LibrarySet clean{Kind::toolkit,
                         "toolkit /t",
                         {file("nvrtc", "/t/libnvrtc.so.13", "13.0"), file("cublas", "/t/libcublas.so.13"),
                          file("cublasLt", "/t/libcublasLt.so.13"), file("ptxas", "/t/ptxas")}};
  std::vector<std::string> said = warnings(std::vector{clean}, {});
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "no libnvrtc.so.12 was found: what is built for CUDA 12 cannot compile kernels here");
  CHECK(warnings(std::vector<LibrarySet>{}, {}).empty());

  LibrarySet mixed = clean;
  mixed.files.push_back(file("cudnn", "/t/libcudnn.so.9", "9.10", "nvidia_cudnn_cu12"));
  said = warnings(std::vector{mixed}, {});
  CHECK(any_contains(said, "toolkit /t mixes CUDA majors: cudnn of CUDA 12, nvrtc of CUDA 13"));
  CHECK(any_contains(said, "no libnvrtc.so.12 was found: the libraries above that are built for CUDA 12"));

  LibrarySet twice = clean;
  twice.files.push_back(file("cublasLt", "/t/other/libcublasLt.so.13"));
  CHECK(
      any_contains(warnings(std::vector{twice}, {}), "has two files of libcublasLt.so.13: /t/libcublasLt.so.13 and /t/other/"));

  const LibrarySet driver{Kind::driver, "driver", {file("cuda", "/usr/lib/libcuda.so.570.124.06", "570.124.06")}};
  CHECK(warnings(std::vector{driver}, {.library_path = {}, .preload = false, .kernel_driver = "570.124.06"}).empty());
  CHECK(any_contains(warnings(std::vector{driver}, {.library_path = {}, .preload = false, .kernel_driver = "535.1"}),
                     "is version 570.124.06, but the loaded kernel module is 535.1"));
  const LibrarySet compat{Kind::toolkit, "t", {file("cuda", "/usr/local/cuda/compat/libcuda.so.580.65", "580.65")}};
  CHECK(any_contains(warnings(std::vector{compat}, {.library_path = {}, .preload = false, .kernel_driver = "535.1"}),
                     "compatibility driver"));
  CHECK(any_contains(warnings(std::vector<LibrarySet>{}, {.library_path = {}, .preload = true, .kernel_driver = {}}),
                     "LD_PRELOAD"));
}

TEST_CASE("a folder of LD_LIBRARY_PATH that would win over a set is named, one with the same file is not") {
  const Installations at;
  const std::string good = at.library("toolkit/lib/libcublasLt.so.13");
  at.library("system/libcublasLt.so.13");
  const LibrarySet set{Kind::toolkit, "toolkit", {file("cublasLt", good)}};
  const auto path_traps = [&](const std::string& folder) {
    std::vector<std::string> said =
        warnings(std::vector{set}, {.library_path = {(at.root / folder).string()}, .preload = false, .kernel_driver = {}});
    std::erase_if(said, [](const std::string& s) { return !contains(s, "LD_LIBRARY_PATH"); });
    return said;
  };
  CHECK(any_contains(path_traps("system"), "system/libcublasLt.so.13 is loaded in place of " + good));
  CHECK(path_traps("toolkit/lib").empty());
  CHECK(path_traps("nowhere").empty());
}

TEST_CASE("a process that mapped one library twice, or two majors of it, is told") {
  const auto mapped = [](const std::string& path, const std::string& soname) {
    report::LibraryIdentity l;
    l.path = path, l.soname = soname;
    return l;
  };
  CHECK(warnings(
            std::vector{mapped("/a/libcublasLt.so.13", "libcublasLt.so.13"), mapped("/a/libcublas.so.13", "libcublas.so.13")})
            .empty());
  CHECK(any_contains(warnings(std::vector{mapped("/a/libcublasLt.so.12", "libcublasLt.so.12"),
                                          mapped("/b/libcublasLt.so.13", "libcublasLt.so.13")}),
                     "/a/libcublasLt.so.12 and /b/libcublasLt.so.13"));
}
