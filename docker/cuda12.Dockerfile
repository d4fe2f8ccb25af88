# SPDX-License-Identifier: Apache-2.0
# Assay beside CUDA 12.8.1 and its cuDNN. From the folder of the repository:
#   docker build -f docker/cuda12.Dockerfile --build-arg BASE_DIGEST=sha256:... -t assay-cuda12 .
#   docker run --rm --gpus all -v "$PWD/runs:/runs" assay-cuda12 run --out /runs/cuda12
# The digest names what was tested; a tag may be published again with other libraries in it.
ARG BASE_DIGEST

FROM nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04@${BASE_DIGEST} AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ cmake ninja-build libeigen3-dev libcli11-dev \
      nlohmann-json3-dev libfmt-dev libxxhash-dev libtomlplusplus-dev && rm -rf /var/lib/apt/lists/*
COPY CMakeLists.txt CMakePresets.json /source/
COPY cmake /source/cmake
COPY data /source/data
COPY kernels /source/kernels
COPY probes /source/probes
COPY reference /source/reference
COPY report /source/report
RUN cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DASSAY_TESTS=OFF && cmake --build /build --target assay

FROM nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04@${BASE_DIGEST}
ARG BASE_DIGEST
# Recorded in environment.json: the image that the libraries came from.
ENV ASSAY_IMAGE_DIGEST=${BASE_DIGEST}
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 assay && mkdir /runs && chown assay /runs
COPY --from=build /build/assay /usr/local/bin/assay
USER assay
WORKDIR /runs
ENTRYPOINT ["assay"]
CMD ["run"]
